"""One thread for small models: two that wait for each other on a busy machine take several times as long."""

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
