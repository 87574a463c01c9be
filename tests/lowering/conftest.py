import pytest

from fuselab.toolkit import options


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """One cache folder for the whole run."""
    with options.using(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield
