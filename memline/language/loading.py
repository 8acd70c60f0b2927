"""Parts of the application's own: an embedder, a chat model, an extractor or an index, given as an object or by its import path."""

from __future__ import annotations

from importlib import import_module

from memline.contracts.errors import ConfigurationError

__all__ = ["check_fits", "load_object"]


def load_object(path: str, setting: str) -> object:
    """The object behind "package.module:name" ("name" may have dots).

    Raises ConfigurationError that names *setting*: the path has another form, the module can't be imported, the name is not there.
    """
    module_name, colon, name = path.partition(":")
    parts = [*module_name.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ConfigurationError(f'{setting} must be an import path such as "package.module:name"; {path!r} is not.')
    try:
        found: object = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ConfigurationError(
                f"{setting} names the module {module_name!r}, and {error.name!r} is not installed or not on the import path."
            ) from error
        raise ConfigurationError(f"{setting} names the module {module_name!r}, which needs the missing module {error.name!r}.") from error
    except Exception as error:  # whatever the application's module does while it is imported
        raise ConfigurationError(f"{setting} names the module {module_name!r}, whose import raises {type(error).__name__}.") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(f"{setting} names {name!r} in {module_name!r}, which has no {part!r}: check the spelling.") from None
    return found


def check_fits(part: object, port: type, name: str) -> None:
    """Raises ConfigurationError where *part*, which *name* stands for, lacks a member of *port* (a Protocol)."""
    members = [member for member in vars(port) if not member.startswith("_")]
    # its class is asked first: what is a property there may take long to read
    missing = [member for member in members if not (hasattr(type(part), member) or hasattr(part, member))]
    if missing:
        raise ConfigurationError(f"{name} is a {type(part).__name__}, which has no {', '.join(missing)}: {port.__name__} is its port.")
