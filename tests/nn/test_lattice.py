"""Lattices of pixels: one of each block, every pixel as likely as its neighbours, and no bias."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from emorl.nn.lattice import BusyPixels, Lattice, draw_busy, draw_lattice, pixel_centres
from emorl.nn.pixels import PixelDecoder
from emorl.probability import LIKELIHOODS

F64 = torch.float64
CPU = torch.device("cpu")
SIZES = [(64, 3), (35, 2), (96, 4), (64, 4), (35, 3), (5, 9), (7, 7)]


@pytest.mark.parametrize(("size", "block"), SIZES)
def test_every_block_gives_one_pixel_that_stands_for_all_of_it(size: int, block: int) -> None:
    lattice = draw_lattice(size, block, CPU)
    count = -(-size // block)
    blocks = torch.arange(count)
    assert torch.equal(lattice.rows // block, blocks[:, None].expand(count, count))
    assert torch.equal(lattice.columns // block, blocks.expand(count, count))
    assert lattice.rows.max() < size
    assert lattice.columns.max() < size
    lengths = [min(block, size - start) for start in range(0, size, block)]
    assert lattice.weights.tolist() == [[height * width for width in lengths] for height in lengths]
    assert lattice.weights.sum() == size**2


def test_each_pixel_of_a_block_is_as_likely_as_the_others() -> None:
    draws, counts = 6000, torch.zeros(5, 5)
    for _ in range(draws):
        lattice = draw_lattice(5, 3, CPU)
        counts[lattice.rows, lattice.columns] += 1
    weights = torch.tensor([3.0, 3, 3, 2, 2])
    expected = 1 / (weights[:, None] * weights)  # the share of draws that have this pixel
    error = (expected * (1 - expected) / draws).sqrt()
    assert ((counts / draws - expected).abs() < 4.5 * error).all()


def test_blocks_of_one_pixel_are_the_image() -> None:
    lattice, x = draw_lattice(6, 1, CPU), torch.rand(2, 3, 6, 6)
    assert torch.equal(lattice.of(x), x)
    assert torch.equal(lattice.coordinates(x), pixel_centres(6, x))
    assert (lattice.weights == 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(("size", "block"), SIZES)
def test_coordinates_are_those_of_the_pixels_it_takes(size: int, block: int, dtype: torch.dtype) -> None:
    lattice, like = draw_lattice(size, block, CPU), torch.zeros((), dtype=dtype)
    centres = pixel_centres(size, like)
    assert centres.dtype == dtype
    assert torch.equal(lattice.coordinates(like), lattice.of(centres.movedim(-1, 0)).movedim(0, -1))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("size", [5, 35, 64, 96])
def test_centres_are_the_middles_at_three_times_the_size(size: int, dtype: torch.dtype) -> None:
    """To the last bit; and they are symmetric, half a pixel away from the borders."""
    like = torch.zeros((), dtype=dtype)
    small, large = pixel_centres(size, like), pixel_centres(3 * size, like)
    assert torch.equal(large[1::3, 1::3], small)
    torch.testing.assert_close(small.flip(0, 1), -small)
    torch.testing.assert_close(small[0, 0], torch.full((2,), -1 + 1 / size, dtype=dtype))


def all_lattices(size: int, block: int) -> list[Lattice]:
    """Every lattice there is, each as likely as the others."""
    starts = range(0, size, block)
    choices = [
        [(i, j) for i in range(top, min(top + block, size)) for j in range(left, min(left + block, size))]
        for top in starts
        for left in starts
    ]
    weights = torch.tensor([float(len(pixels)) for pixels in choices]).reshape(len(starts), -1)
    found = []
    for pixels in product(*choices):
        rows, columns = torch.tensor(pixels).T.reshape(2, len(starts), len(starts))
        found.append(Lattice(rows, columns, weights, size))
    return found


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize(("size", "block"), [(3, 2), (4, 2)])
def test_the_mean_gradient_over_all_lattices_is_that_of_all_pixels(
    likelihood: str, size: int, block: int
) -> None:
    decoder, nll = PixelDecoder(image_size=size, slot_size=3, channels=4).double(), LIKELIHOODS[likelihood]
    z = torch.randn(2, 3, 3, dtype=F64, requires_grad=True)
    x = torch.rand(2, 3, size, size, dtype=F64)
    inputs = [z, *decoder.parameters()]

    def gradients(loss: Tensor) -> list[Tensor]:
        return [loss.detach(), *torch.autograd.grad(loss, inputs)]

    log_masks, components = decoder(z)
    expected = gradients(nll(x, log_masks, components, 0.3).sum())
    lattices = all_lattices(size, block)
    assert len(lattices) == {3: 4 * 2 * 2, 4: 4**4}[size]
    sums = [torch.zeros_like(t) for t in expected]
    for lattice in lattices:
        log_masks, components = decoder(z, lattice.coordinates(z))
        one = gradients(nll(lattice.of(x), log_masks, components, 0.3, lattice.weights).sum())
        for total, found in zip(sums, one, strict=True):
            total += found / len(lattices)
    for found, wanted in zip(sums, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def square_on_grey() -> torch.Tensor:
    """An image of 12 x 12 with a red square, and a second one without anything."""
    x = torch.full((2, 3, 12, 12), 0.5)
    x[0, :, 3:8, 3:8] = torch.tensor([1.0, 0, 0]).view(3, 1, 1)
    return x


def test_pixels_at_outlines_are_drawn_more_often_and_count_for_less_without_bias() -> None:
    torch.manual_seed(0)
    x, values = square_on_grey(), torch.rand(2, 1, 12, 12)
    draws = [draw_busy(x, 3, 0.5) for _ in range(4000)]
    assert draws[0].indices.shape == (2, 4, 4)
    found = torch.stack([(one.of(values) * one.weights).sum(dim=(1, 2, 3)) for one in draws]).mean(dim=0)
    torch.testing.assert_close(found, values.sum(dim=(1, 2, 3)), rtol=0.02, atol=0)
    counts = torch.stack([one.indices.flatten(1) for one in draws], dim=1).flatten(1)
    outline, inside, anywhere = 3 * 12 + 3, 5 * 12 + 5, 0
    often = [(counts[0] == pixel).sum() for pixel in (outline, inside, anywhere)]
    assert often[0] > 3 * often[1]
    assert 0.8 < often[1] / often[2] < 1.25
    assert all(
        (one.weights[1] == 9).all() for one in draws
    )  # a plain image has no outline: nothing is busier


def test_busy_pixels_know_where_they_are() -> None:
    x = square_on_grey()
    pixels, where = draw_busy(x, 2, 0.5), pixel_centres(12, x).movedim(-1, 0).expand(2, -1, -1, -1)
    assert torch.equal(pixels.coordinates(x), pixels.of(where).movedim(1, -1))
    second = pixels.part(slice(1, 2))
    assert torch.equal(second.of(x[1:]), pixels.of(x)[1:])
    assert torch.equal(second.coordinates(x), pixels.coordinates(x)[1:])
    assert torch.equal(second.weights, pixels.weights[1:])


def test_a_decoder_paints_other_pixels_for_each_image() -> None:
    decoder = PixelDecoder(image_size=6, slot_size=3, channels=4)
    z = torch.randn(2, 2, 3)
    indices = torch.randint(36, (2, 3, 3))
    pixels = BusyPixels(indices, torch.ones(2, 1, 3, 3), 6)
    whole, some = decoder.render(z), decoder.render(z, pixels.coordinates(z))
    for image in range(2):
        expected = whole[image].flatten(-2)[..., indices[image].flatten()].unflatten(-1, (3, 3))
        torch.testing.assert_close(some[image], expected)
