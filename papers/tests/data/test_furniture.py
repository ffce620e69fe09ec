import torch

from veracity_papers.data.modelnet import furniture


def test_clouds_are_centred_and_lie_in_the_unit_ball():
    x, y = furniture(9, 64, seed=3)
    assert torch.allclose(x.mean(dim=1), torch.zeros(9, 3), atol=1e-6)
    assert torch.allclose(x.norm(dim=2).amax(dim=1), torch.ones(9), atol=1e-6)
    assert y.bincount().tolist() == [3, 3, 3]


def test_a_seed_says_everything():
    assert torch.equal(furniture(4, 16, seed=1)[0], furniture(4, 16, seed=1)[0])
    assert not torch.equal(furniture(4, 16, seed=1)[0], furniture(4, 16, seed=2)[0])


def test_shapes_have_their_own_proportions():
    x, y = furniture(60, 256, seed=0)
    extent = x.amax(dim=1) - x.amin(dim=1)
    longest = [extent[y == label].mean(dim=0).argmax().item() for label in range(3)]
    assert longest == [0, 2, 0], "a bench is wide, a chair is tall, a monitor is wide"
    assert (extent[y == 2, 1] < extent[y == 2, 2]).all(), "and thin"
