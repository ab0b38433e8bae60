"""Pages as a browser shows them."""

from contextlib import contextmanager


@contextmanager
def opened(browser, path, width, scheme="light", offline=False):
    """A page that is quiet, asks for nothing, fits the window, and whose pictures can be read."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=offline)
    page = context.new_page()
    trouble, requests = [], []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.on("requestfailed", lambda failed: trouble.append(failed.url))
    page.on("request", lambda sent: requests.append(sent.url))
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    assert trouble == []
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    _check_pictures(page, width)
    yield page
    context.close()


def _check_pictures(page, width):
    for figure in page.locator("figure").all():
        assert figure.is_visible()
        # Pictures are drawn for a white ground, in the dark too.
        assert figure.evaluate("element => getComputedStyle(element).backgroundColor") == "rgb(255, 255, 255)"
    for picture in page.locator(".panel svg").all():
        box = picture.bounding_box()
        assert box["width"] >= 200
        assert box["height"] >= 80
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    sizes = page.locator(".panel text").evaluate_all(
        """all => all.map(text => {
            const screen = text.getScreenCTM();
            return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(screen.a, screen.b);
        })"""
    )
    assert min(sizes) >= 9
    cut_off = page.locator(".panel text").evaluate_all(
        """all => all.filter(text => {
            const [inner, outer] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
            return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1;
        }).map(text => text.textContent)"""
    )
    assert cut_off == []
