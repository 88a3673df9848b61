import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small lose more to waking a second thread than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
