"""Phrases that a native speaker would not write: ``python tests/prose.py`` names where they are, and what to write.

Add to the list what a reader stumbles over.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A regular expression, without regard to case, and what would be right. Blanks stand for any white space.
PHRASES = {
    r"belongs? into": "belongs in, goes inside",
    r"(on|in) average of the": "averaged over the",
    r"shall (a|an|the|we|i|it)\b": "should",
    r"(some|several) (ten|dozen|dozens|hundred|thousand|million)\b": "a few, about",
    r"made (problem|world|data)": "synthetic",
    r"named? falsely": "false alarms",
    r"\| here \| beside \|": "ours, alternative",
    r"(set|beside) (the results|it) beside": "compared with, next to",
    r"files? of strangers": "untrusted files",
    r"hardly anybody": "hardly any",
    r"(is|are) of no kind": "is not one of",
    r"parts? miss\b": "is missing",
    r"what (it|they) failed of": "the error it failed with",
    r"(does|do) not .{0,20}\bany more\b": "no longer",
    r"memory is (not )?sufficient": "there is (not) enough memory",
    r"(?<!there.)is no (number|date|file|tuple of|text of)\b": "is not a",
    r"the whole of (training|delta|the sample)": "all of",
    r"(answers?|comes? out) otherwise": "gives another answer",
    r"by much\b": "by a wide margin, badly",
    r"as far as .{1,30} reaches": "as far as possible with",
    r"(is|are) trained already": "is already trained",
    r"allows? to (?!be\b)\w+": "allows ... to, makes it possible to",
    r"kinds? of models?\b": "model families",
    r"informations\b": "information",
    r"until some (million|thousand)": "up to a few",
    r"how (it|this) looks like": "what it looks like, how it looks",
}
ANY = "|".join(f"(?P<p{k}>{phrase})" for k, phrase in enumerate(PHRASES)).replace(" ", r"\s+")
PATTERN = re.compile(rf"(?<!\w)(?:{ANY})", re.I)  # not in the middle of words, where most of the time would go
FILES = (
    "*.md",
    "docs/*.md",
    "docs/gallery/**/*.py",
    "examples/*.py",
    "src/**/*.py",
    "src/**/*.html",
    ".github/**/*.yml",
)


def find_phrases(text):
    """Return the line, the phrase and what to write, for each phrase of the list in a text."""
    suggestions = list(PHRASES.values())
    return [
        (text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), suggestions[int(found.lastgroup[1:])])
        for found in PATTERN.finditer(text)
    ]


def check_files():
    """Return a line for each phrase of the list in the project's text."""
    paths = sorted({path for pattern in FILES for path in ROOT.glob(pattern)})
    return [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}: {suggestion}"
        for path in paths
        for line, phrase, suggestion in find_phrases(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    sys.exit("\n".join(check_files()) or None)
