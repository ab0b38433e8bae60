import mpmath
import pytest
from hypothesis import settings

# Examples differ in cost by orders of magnitude (n, m), so no deadline; the same examples every time.
settings.register_profile("pacbayes", deadline=None, derandomize=True, max_examples=200)
settings.load_profile("pacbayes")


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield
