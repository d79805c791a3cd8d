"""Sites for real controllers; controllers that a test leaves running are killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.site import Site


@pytest.fixture
def site_over(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    """Function that creates a site on a database."""
    sites: list[Site] = []

    def create(database_url: str) -> Site:
        sites.append(Site(database_url, tmp_path / f"site-{len(sites)}"))
        return sites[-1]

    yield create
    for site in sites:
        site.close()


@pytest.fixture
def site(site_over: Callable[[str], Site], database_url: str) -> Site:
    """Site on SQLite and on PostgreSQL."""
    return site_over(database_url)


@pytest.fixture
def postgresql_site(site_over: Callable[[str], Site], postgresql_database_url: str) -> Site:
    return site_over(postgresql_database_url)


@pytest.fixture
def sqlite_site(site_over: Callable[[str], Site], sqlite_database_url: str) -> Site:
    return site_over(sqlite_database_url)
