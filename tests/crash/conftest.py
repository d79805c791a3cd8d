"""A site for real controllers; whatever a test leaves running is ended."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.site import Site


@pytest.fixture
def site_over(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    """Makes the test's site over a database."""
    made: list[Site] = []

    def over(database_url: str) -> Site:
        made.append(Site(database_url, tmp_path / f"site-{len(made)}"))
        return made[-1]

    yield over
    for site in made:
        site.close()


@pytest.fixture
def site(site_over: Callable[[str], Site], database_url: str) -> Site:
    """On both databases."""
    return site_over(database_url)


@pytest.fixture
def postgresql_site(site_over: Callable[[str], Site], postgresql_database_url: str) -> Site:
    return site_over(postgresql_database_url)


@pytest.fixture
def sqlite_site(site_over: Callable[[str], Site], sqlite_database_url: str) -> Site:
    return site_over(sqlite_database_url)
