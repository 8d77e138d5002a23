"""Typed settings, checked before anything starts; the only reader of the environment."""

from mutirao.settings.model import LOCAL_HOSTS, Settings, default_data_dir, is_loopback
from mutirao.settings.sources import PREFIX, Given, environment, gather, inherited_environment, load_settings

__all__ = [
    "LOCAL_HOSTS",
    "PREFIX",
    "Given",
    "Settings",
    "default_data_dir",
    "environment",
    "gather",
    "inherited_environment",
    "is_loopback",
    "load_settings",
]
