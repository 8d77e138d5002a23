"""English and Brazilian Portuguese: messages are keyed by their English text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from flask import request

LANGUAGES = {"en": "English", "pt-BR": "Português"}

PORTUGUESE: Mapping[str, str] = {
    "A distributed task scheduler": "Um agendador de tarefas distribuído",
    "Attempts": "Tentativas",
    "Cluster": "Cluster",
    "Created (UTC)": "Criado em (UTC)",
    "Dead letters": "Cartas mortas",
    "Handler": "Tratador",
    "Incarnation": "Encarnação",
    "Job": "Tarefa",
    "Language": "Idioma",
    "Last beat": "Última batida",
    "Leader": "Líder",
    "Mean duration": "Duração média",
    "Name": "Nome",
    "No job has been submitted yet.": "Nenhuma tarefa foi enviada ainda.",
    "No node has registered yet.": "Nenhum nó se registrou ainda.",
    "Node": "Nó",
    "Nodes": "Nós",
    "Queue": "Fila",
    "Queue length": "Tamanho da fila",
    "Recent jobs": "Tarefas recentes",
    "Refresh every 5 seconds": "Atualizar a cada 5 segundos",
    "Role": "Papel",
    "Skip to content": "Pular para o conteúdo",
    "Slots": "Vagas",
    "State": "Estado",
    "Status": "Situação",
    "Stop refreshing": "Parar de atualizar",
    "Success rate": "Taxa de sucesso",
    "Term": "Mandato",
    "The database does not answer": "O banco de dados não responde",
    "What is shown here comes from PostgreSQL, which cannot be reached. Running jobs go on; "
    "new ones are refused until it is back.": "O que se vê aqui vem do PostgreSQL, que está inacessível. "
    "As tarefas em execução continuam; novas são recusadas até ele voltar.",
    "Updated": "Atualizado",
    "Version": "Versão",
    "ago": "atrás",
    "assigned": "atribuída",
    "attempts in the last hour": "tentativas na última hora",
    "cancelled": "cancelada",
    "cancelling": "cancelando",
    "coordinator": "coordenador",
    "dead": "morta",
    "draining": "esvaziando",
    "live": "vivo",
    "lost": "perdido",
    "nobody": "ninguém",
    "none": "nenhuma",
    "not registered": "não registrado",
    "of an attempt in the last hour": "de uma tentativa na última hora",
    "queued": "na fila",
    "running": "em execução",
    "scheduled": "agendada",
    "stopped": "parado",
    "succeeded": "concluída",
    "this node": "este nó",
    "waiting": "aguardando",
    "wait for a decision": "aguardam uma decisão",
    "worker": "trabalhador",
}

_CATALOGUES: Mapping[str, Mapping[str, str]] = {"en": {}, "pt-BR": PORTUGUESE}


def language() -> str:
    """The reader's language: `?lang=`, else what the browser accepts, else English."""
    asked = request.args.get("lang", "")
    if asked in LANGUAGES:
        return asked
    accepted = request.accept_languages.best_match(["en", "pt-BR", "pt"], default="en")
    return "pt-BR" if accepted.startswith("pt") else "en"


def translator(lang: str) -> Callable[[str], str]:
    """The message in `lang`; the English text itself where there is no translation."""
    catalogue = _CATALOGUES[lang]
    return lambda message: catalogue.get(message, message)


def number(value: float | None, digits: int, lang: str, unit: str = "") -> str:
    """A number as people write it; a dash for what is not known."""
    if value is None:
        return "–"
    text = f"{value:,.{digits}f}"
    if lang == "pt-BR":
        text = text.translate({ord(","): ".", ord("."): ","})
    return f"{text}{unit}"


def instant(value: datetime | None) -> str:
    """A time to the second, in UTC."""
    return "–" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
