"""PixelDecoder: pictures without a resolution, in a frame that moves, turns and grows."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from emorl.nn import pixels
from emorl.nn.lattice import pixel_centres
from emorl.nn.pixels import DEPTH, FREQUENCIES, SLOW, PixelDecoder
from emorl.nn.position import fold_into_disc, harmonics

F64 = torch.float64


def decoder(size: int = 12, *, with_absolute: bool = True) -> PixelDecoder:
    """With weights large enough for pictures to have detail."""
    made = PixelDecoder(image_size=size, slot_size=5, channels=7).double()
    if not with_absolute:
        nn.init.zeros_(made.absolute.weight)
    return made


def slots(*shape: int) -> Tensor:
    return torch.randn(*shape, 5, dtype=F64)


@pytest.mark.parametrize("size", [12, 35])
def test_a_picture_is_every_third_pixel_of_one_three_times_as_large(size: int) -> None:
    d, z = decoder(size), slots(2, 3)
    large = d.render(z, pixel_centres(3 * size, z))
    assert large.shape == (2, 3, 4, 3 * size, 3 * size)
    torch.testing.assert_close(large[..., 1::3, 1::3], d.render(z), rtol=1e-12, atol=1e-12)
    assert large.std(dim=(-2, -1)).min() > 1e-3  # there is something to see


def test_painting_in_blocks_equals_painting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    d, z, calls = decoder(), slots(2, 3), []
    at_once = d.render(z)
    assert at_once.requires_grad
    monkeypatch.setattr(pixels, "BLOCK", 2 * 3 * 7 * 50)  # 50 pixels of each slot
    paint = d.paint

    def counted(z: Tensor, places: Tensor) -> Tensor:
        calls.append(len(places))
        return paint(z, places)

    monkeypatch.setattr(d, "paint", counted)
    with torch.no_grad():
        found = d.render(z)
    assert calls == [50, 50, 44]
    torch.testing.assert_close(found, at_once, rtol=1e-12, atol=1e-12)


def test_any_coordinates_in_any_arrangement() -> None:
    d, z = decoder(), slots(1, 2)
    whole, places = d.render(z), pixel_centres(12, z)
    torch.testing.assert_close(d.render(z, places[3:5, 7:11]), whole[..., 3:5, 7:11], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(d.render(z, places.transpose(0, 1)), whole.mT, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_it_equals_a_plain_mlp_that_slots_scale_and_shift() -> None:
    """Weights of each slot's own are folded out of the plain ones: pixel by pixel, slot by slot."""
    d, z = decoder(6), slots(1, 2)
    found = d.render(z)
    places = pixel_centres(6, z)
    for k, i, j in [(0, 0, 0), (0, 3, 5), (1, 2, 2), (1, 5, 1)]:
        one, place = z[0, k], places[i, j]
        centre, log_size, (cos, sin) = d.frame_of(one)
        turn = torch.tensor([[cos, -sin], [sin, cos]], dtype=F64)
        u = turn @ (place - centre) / log_size.exp()
        inside, far = fold_into_disc(u)
        features = torch.cat([inside, far, harmonics(inside, FREQUENCIES)])
        h = d.place(features) * (1 + d.place_scale(one)) + d.place_shift(one)
        h = (h + d.absolute(harmonics(place / 2, SLOW))).relu()
        for l in range(DEPTH):
            scale, shift = d.scale_and_shift[l](one).chunk(2)
            h = ((1 + scale) * (d.hidden[l].weight @ h) + d.hidden[l].bias + shift).relu()
        torch.testing.assert_close(found[0, k, :, i, j], d.out(h), rtol=1e-10, atol=1e-10)


def moved(
    d: PixelDecoder, *, centre: tuple[float, float] = (0, 0), log_size: float = 0, turn: float = 0
) -> Tensor:
    """The picture of one slot whose frame is this, whatever z says."""
    nn.init.zeros_(d.frame.weight)
    numbers = [*centre, log_size, math.cos(turn) - 1, math.sin(turn)]
    with torch.no_grad():
        d.frame.bias.copy_(torch.tensor(numbers, dtype=F64))
        return d.render(torch.ones(1, 1, 5, dtype=F64))[0, 0]


def test_moving_the_frame_moves_the_picture() -> None:
    d = decoder(with_absolute=False)
    here, there = moved(d), moved(d, centre=(4 * 2 / 12, -3 * 2 / 12))  # four pixels down, three to the left
    torch.testing.assert_close(there[:, 4:, :-3], here[:, :-4, 3:], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(here, there)


def test_a_frame_three_times_as_large_shows_the_picture_three_times_as_large() -> None:
    d = decoder(15, with_absolute=False)
    small, large = moved(d), moved(d, log_size=math.log(3))
    torch.testing.assert_close(large[:, 1::3, 1::3], small[:, 5:10, 5:10], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(large, small)


def test_turning_the_frame_turns_the_picture() -> None:
    d = decoder(with_absolute=False)
    upright, turned = moved(d), moved(d, turn=math.pi / 2)
    torch.testing.assert_close(turned, torch.rot90(upright, -1, dims=(-2, -1)), rtol=1e-10, atol=1e-10)
    assert not torch.allclose(turned, upright)


def test_what_does_not_move_with_the_frame() -> None:
    d = decoder()
    nn.init.zeros_(d.place.weight)  # nothing but absolute places is seen
    assert torch.equal(moved(d), moved(d, centre=(0.5, 0.2), log_size=1, turn=1))
    assert moved(d).std() > 0


def test_frames_start_near_the_middle_and_turns_have_length_one() -> None:
    d = decoder()
    d.initialise()
    centre, log_size, turn = d.frame_of(slots(1000))
    assert centre.mean(dim=0).abs().max() < 0.05
    assert 0.05 < centre.std() < 0.6
    assert (log_size.exp() / 0.5).log().abs().mean() < 0.6
    torch.testing.assert_close(turn.norm(dim=-1), torch.ones(1000, dtype=F64))
    assert turn[:, 0].mean() > 0.8  # nearly upright


def test_a_small_case_has_the_gradient_of_finite_differences() -> None:
    d = PixelDecoder(image_size=3, slot_size=3, channels=4).double()
    z = torch.randn(1, 2, 3, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: d(z), z)
    places = torch.rand(2, 1, 2, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda places: d(z.detach(), places), places)


def test_harmonics_are_sines_and_cosines() -> None:
    v = torch.randn(4, 2, dtype=F64)
    expected = [(math.pi * k * v).sin() for k in (1, 2, 3)] + [(math.pi * k * v).cos() for k in (1, 2, 3)]
    torch.testing.assert_close(harmonics(v, 3), torch.cat(expected, dim=-1), rtol=1e-12, atol=1e-12)


def test_the_plane_is_folded_into_a_disc() -> None:
    u = 100 * torch.randn(50, 2, dtype=F64)
    inside, far = fold_into_disc(u)
    assert inside.norm(dim=-1).max() < 1
    torch.testing.assert_close(far.squeeze(-1), (1 + u.norm(dim=-1) ** 2).log())
    near = 1e-4 * torch.randn(50, 2, dtype=F64)
    torch.testing.assert_close(fold_into_disc(near)[0], near, rtol=1e-6, atol=0)
