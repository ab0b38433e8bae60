"""Make commands of functions, and report errors that a user can put right: one line, and exit code 2."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin

import typer

from pacbayes.cli._console import print_error
from pacbayes.exceptions import PACBayesError

# What options are for that several commands have.
_SHARED_HELP = {
    "column": "Column of the losses, if the file has several.",
    "delta": "Probability with which the bound may fail, in (0, 1).",
    "held_out": "Use only the rows that `fit --test-size` held out of this table, which must be the one given to fit.",
    "json": "Print one JSON object, for scripts.",
    "max_bytes": ("Refuse files that take more memory than this. [default: 2 GiB for a model, 8 GiB for a table]"),
    "model": "Model that `fit` saved.",
    "objective": "The bound to minimise: the paper's (lambda), PAC-Bayes-kl, the dual or the direct bound.",
}

_PARAMETERS = re.compile(r"\n\n(?:Parameters|Attributes)\n-+\n")
_ENTRY = re.compile(r"^(\w+)\n((?:    .*\n?)+)", re.MULTILINE)
_HELP = re.compile(r"(.*?)(?: \[default: (.*)\])?")


def make_command(
    function: Callable[..., None],
    parameters: Iterable[inspect.Parameter] | None = None,
    help: Mapping[str, str] | None = None,
    *,
    extra: str = "cli",
) -> Callable[..., None]:
    """Return what typer makes a command of: each parameter is an argument or an option, with its help of the docstring.

    A parameter that is a dataclass stands for its fields, which are options that several commands share. `parameters`
    and `help` may be given instead. `extra` is the extra of the package that installs what the command needs.
    """
    text, own_help = _read_docstring(function)
    help = {**_SHARED_HELP, **own_help, **(help or {})}
    options: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in parameters or inspect.signature(function, eval_str=True).parameters.values():
        group: Any = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[parameter.name] = group
            help |= _read_docstring(group)[1]
            options += inspect.signature(group, eval_str=True).parameters.values()
        else:
            options.append(parameter)
    options = [_declare(option, help.get(option.name, "")) for option in options]

    def command(**values: Any) -> None:
        delta = values.get("delta")
        if delta is not None and not 0 < delta < 1:  # before anything is imported or read
            raise usage_error(f"delta must be in (0, 1), got {delta}")
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        with _user_errors(extra):
            function(**values)

    command.__name__, command.__doc__ = function.__name__, text
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def _read_docstring(documented: Any) -> tuple[str, dict[str, str]]:
    """Return what a docstring says before its parameters, and about each of these."""
    text, *entries = _PARAMETERS.split(inspect.getdoc(documented) or "")
    return text, {name: " ".join(words.split()) for name, words in _ENTRY.findall("".join(entries))}


def _declare(parameter: inspect.Parameter, help: str) -> inspect.Parameter:
    """Return a parameter with what typer has to know: an argument if it has no default, and otherwise an option.

    What typer has to know besides is in its annotation. The help may end with words for the default: [default: none].
    """
    annotation, name = parameter.annotation, parameter.name
    info: Any
    if get_origin(annotation) is Annotated:
        annotation, info = get_args(annotation)
        info = copy.copy(info)
    elif parameter.default is inspect.Parameter.empty:
        info = typer.Argument()
    elif name == "output":
        info = typer.Option("--output", "-o")
    else:
        info = typer.Option(*([f"--{name.replace('_', '-')}"] if parameter.default is False else []))
    info.help, default = re.fullmatch(_HELP, help).groups()  # type: ignore[union-attr]
    info.show_default = default or True
    return parameter.replace(annotation=Annotated[annotation, info], kind=inspect.Parameter.KEYWORD_ONLY)


def show_help_without_command(context: typer.Context) -> None:
    """End the program with the help of a group of commands, if none of them was named."""
    if context.invoked_subcommand is None:
        # Depending on whether rich is there, the help is printed or returned.
        print(context.get_help())
        raise typer.Exit(2)


def usage_error(message: object) -> typer.Exit:
    """Print what is wrong with what was asked for, and return the exception that ends the program."""
    print_error(" ".join(str(message).split()))
    return typer.Exit(2)


@contextmanager
def _user_errors(extra: str) -> Iterator[None]:
    """Report errors of the library and of the system, and ValueError, without a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has closed it: typer ends quietly
    except OSError as error:
        raise usage_error(f"{error.filename}: {error.strerror}" if error.filename else error) from error
    except (PACBayesError, ValueError) as error:
        raise usage_error(error) from error
    except ImportError as error:
        # The library says itself what to install where it needs a package; where Python does, only its name is known.
        install = f'this needs {error.name}: python -m pip install "pacbayes[{extra}]"'
        raise usage_error(install if isinstance(error, ModuleNotFoundError) else error) from error
    except MemoryError as error:
        raise usage_error("there is not enough memory: use fewer rows or columns, or a larger machine") from error
    except KeyboardInterrupt:
        print_error("stopped, and nothing was written")
        raise typer.Exit(130) from None
