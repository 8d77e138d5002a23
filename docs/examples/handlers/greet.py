"""Greets people."""

from mutirao.contract import Context, Payload, handler


class Person(Payload):
    """Who, and how often."""

    name: str
    times: int = 1


class Greeting(Payload):
    """What was said, and by which attempt."""

    text: str
    attempt: int


@handler("greet", timeout=10.0)
def greet(payload: Person, context: Context) -> Greeting:
    """Greets a person, as often as asked."""
    context.log.info("greeting %s", payload.name)
    text = " ".join([f"Olá, {payload.name}!"] * payload.times)
    return Greeting(text=text, attempt=context.attempt)
