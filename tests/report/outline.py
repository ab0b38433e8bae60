"""What an HTML page consists of."""

import re
from html.parser import HTMLParser


class Outline(HTMLParser):
    """Tags with their attributes, and text outside of style sheets."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.inside = [], "", []
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while tag in self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.inside[-1:]:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def check_sound(html):
    """The page is HTML with unique ids, and refers to nothing that is not on it."""
    outline = Outline(html)
    assert html.startswith("<!DOCTYPE html>")
    assert outline.all("html") == [{"lang": "en"}]
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in outline.tags:
        for name in ("aria-labelledby", "href", "xlink:href"):
            reference = attributes.get(name, "")
            if (name == "aria-labelledby" and reference) or reference.startswith("#"):
                assert reference.removeprefix("#") in ids


def check_stands_alone(html):
    """The page runs nothing and asks for nothing."""
    outline = Outline(html)
    assert not outline.all("script")
    assert not [name for _, attributes in outline.tags for name in attributes if name.startswith("on")]
    assert [attributes["href"] for attributes in outline.all("link")] == ["data:,"]
    assert not [attributes for _, attributes in outline.tags if "src" in attributes]
    assert not re.search(r"@import|url\((?!#)", html)
