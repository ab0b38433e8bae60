import gc
import os
import shutil

import mpmath
import pytest
from hypothesis import settings

# Matrices are small here, and threads of BLAS that wait for each other only take the processor from other workers, who
# inherit this, as every process does that a test starts.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Examples differ in cost by orders of magnitude (n, m), so no deadline; the same examples every time.
settings.register_profile("pacbayes", deadline=None, derandomize=True, max_examples=200)
settings.register_profile("quick", settings.get_profile("pacbayes"), max_examples=25)
settings.load_profile("pacbayes")


def pytest_configure(config):
    # Property tests try fewer examples where slow tests are left out.
    if "not slow" in config.option.markexpr:
        settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage among modules and tests, which all stay: that took a third of the time of collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


@pytest.fixture(autouse=True)
def no_progress_lines(monkeypatch):
    """Print no line of progress, however slow the machine is; tests of these lines set their own times."""
    from pacbayes import _progress

    monkeypatch.setattr(_progress, "_FIRST_LINE", 1e6)


@pytest.fixture
def set_block_rows(monkeypatch):
    """Return a function that sets how many rows are computed on at a time, at most."""
    from pacbayes import _parallel

    return lambda rows: monkeypatch.setattr(_parallel, "_MOST_ROWS", rows)


@pytest.fixture
def no_pictures(monkeypatch):
    """Leave the pictures of pages empty, for tests of the rest: to render them takes most of the time of a page."""
    monkeypatch.setattr("pacbayes.report._plots.svg_element", lambda figure, prefix: "<svg></svg>")


@pytest.fixture(scope="session")
def browser():
    """Chromium; without it, tests of pages in a browser are skipped, and the summary of the tests says so."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages not seen in a browser: no playwright")
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("pages not seen in a browser: no Chromium on this machine")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
