"""Edits of slots: an object moves alone, and what was done can be undone."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch

from emorl import UserError
from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.latents import slots_of
from emorl.explorer.board import Board
from emorl.explorer.guide import learn_guide
from emorl.explorer.meaning import likeness, most_active, names_of, study, traversal, varied
from emorl.explorer.moves import Move
from emorl.explorer.turns import metric_of, targets_of, turned_back
from emorl.models import MODELS, build
from emorl.nn.lattice import pixel_centres
from emorl.nn.pixels import PixelDecoder
from emorl.runs.run import Run
from explorer_server import BLOCKS, CLEVR, SPRITES


@cache
def opened(name: str) -> Run:
    return Run.open(name)


def board_of(name: str, index: int = 1) -> Board:
    run = opened(name)
    scenes = run.scenes("test")
    return Board(run.model, scenes[index].image, decompose_scene(run.model, scenes, index).slots[0])


def an_object(board: Board) -> int:
    """The slot that shows the most beside the background."""
    shares = board.explained()
    owner = board.masks.argmax(dim=0)
    seen = [k for k in range(len(shares)) if board.place(k) and (owner == k).float().mean() < 0.45]
    return max(seen, key=lambda k: shares[k])


@pytest.mark.parametrize("name", [SPRITES, BLOCKS])
def test_a_moved_object_moves_alone(name: str) -> None:
    """Over several scenes: now and then two objects share a slot."""
    inside, outside, missed = map(
        torch.tensor, zip(*(moved(board_of(name, n)) for n in range(6)), strict=True)
    )
    assert float(missed.median()) < 0.05
    assert float(inside.mean()) > 10 * float(outside.mean())


def moved(board: Board) -> tuple[float, float, float]:
    """Moves an object. Returns the mean change of a pixel in its mask and outside, and how far it missed its goal."""
    k = an_object(board)
    before, picture, mask = board.place(k), board.picture, board.masks[k]
    assert before is not None
    goal = Move(down=-0.2 if before.down > 0 else 0.2, right=-0.2 if before.right > 0 else 0.2)
    assert board.move(k, goal, stroke=1) == [k]
    board.move(k, goal, stroke=1)  # a drag sends many messages; without a frame each goes some of the way
    after = board.place(k)
    assert after is not None
    missed = math.hypot(after.down - before.down - goal.down, after.right - before.right - goal.right)
    within = torch.maximum(mask, board.masks[k])
    change = (board.picture - picture).abs().mean(dim=0, keepdim=True)
    shares = [float((change * where).sum() / where.sum()) for where in (within, 1 - within)]
    return shares[0], shares[1], missed


@torch.no_grad()
def test_a_frame_is_moved_and_resized_and_nothing_else() -> None:
    board = board_of(SPRITES)
    k = an_object(board)
    decoder = board.model.decoder
    assert isinstance(decoder, PixelDecoder)
    before = decoder.frame(board.slots[k])
    board.move(k, Move(down=0.1, right=-0.2), stroke=1)
    change = before.new_tensor([0.1, -0.2, 0.0, 0.0, 0.0])
    torch.testing.assert_close(decoder.frame(board.slots[k]), before + change, atol=1e-4, rtol=0)
    board.undo()
    board.move(k, Move(grow=0.3), stroke=2)
    torch.testing.assert_close(
        decoder.frame(board.slots[k])[2:], (before + 0.3 * unit(2))[2:], atol=1e-4, rtol=0
    )


def unit(n: int) -> torch.Tensor:
    return torch.eye(5)[n]


@pytest.mark.parametrize("grow", [-0.3, 0.3])
def test_an_object_that_grows_stays_where_it_is(grow: float) -> None:
    board = board_of(SPRITES, 3)
    k = an_object(board)
    before = board.place(k)
    board.move(k, Move(grow=grow), stroke=1)
    after = board.place(k)
    assert before is not None
    assert after is not None
    assert math.hypot(after.down - before.down, after.right - before.right) < 0.04
    assert math.log(after.size / before.size) == pytest.approx(grow, abs=0.15)


@torch.no_grad()
def test_a_turned_object_looks_as_it_did_from_a_turned_place() -> None:
    """An ellipse, turned by 45 degrees in the steps of a drag, shows what it showed; nothing else moves."""
    board = board_of(SPRITES, 3)
    k = an_object(board)
    place, first, mask = board.place(k), board.picture, board.masks[k]
    assert place is not None
    for n in range(1, 17):
        board.move(k, Move(turn=n * math.pi / 64), stroke=1)
    decoder = board.model.decoder
    assert isinstance(decoder, PixelDecoder)
    middle = torch.tensor([place.down, place.right])
    places = turned_back(pixel_centres(64, like=first) - middle, math.pi / 4) + middle
    logit, colour = decoder.render(board.first.slots[None, [k]], places)[0, 0].split([3, 1])[::-1]
    wanted = (
        torch.cat([board.logits[:k], logit[None], board.logits[k + 1 :]]).softmax(dim=0)[k] * colour.sigmoid()
    )
    found = board.masks[k] * board.colours[k]
    assert float((found - wanted).square().sum()) < 0.15 * float(
        (mask * board.colours[k] - wanted).square().sum()
    )
    within = torch.maximum(mask, board.masks[k])
    change = (board.picture - first).abs().mean(dim=0, keepdim=True)
    inside, outside = (float((change * where).sum() / where.sum()) for where in (within, 1 - within))
    assert inside > 10 * outside
    board.undo()
    assert torch.equal(board.slots, board.first.slots)


def test_a_large_turn_goes_through_angles_between() -> None:
    assert targets_of(0, 0.1) == [0.1]
    assert targets_of(0, -0.6) == pytest.approx([-0.3, -0.6])
    assert targets_of(1, 10)[-1] < 3  # the next request goes on


def turn_by(board: Board, k: int, angle: float, steps: int = 16) -> None:
    """Turns an object as a drag does."""
    for n in range(1, steps + 1):
        board.move(k, Move(turn=n * angle / steps), stroke=1)


def test_what_the_model_has_not_seen_ends_a_turn_before_the_object_loses_its_shape() -> None:
    """Things that stand on a floor tip over a little, and are held there."""
    board, run = board_of(CLEVR, 2), opened(CLEVR)
    board.metric = metric_of(slots_of(run.model, run.scenes("test"), images=12).flatten(0, 1))
    k = an_object(board)
    picture, mask = board.picture, board.masks[k]
    turn_by(board, k, math.pi / 2)
    held = board.now.turns[k].angle
    assert board.is_held
    assert 0 < held < 1.2  # a right angle is 1.57
    overlap = torch.minimum(mask, board.masks[k]).sum() / torch.maximum(mask, board.masks[k]).sum()
    assert float(overlap) > 0.7
    for stroke in (1, 2, 3):  # nor does another drag take it further
        board.move(k, Move(turn=0.2), stroke=stroke + 10)
        assert board.is_held
        assert board.now.turns[k].angle == held
    board.move(k, Move(turn=0.05 - held), stroke=20)  # the way back is open
    assert board.now.turns[k].angle == pytest.approx(0.05)
    assert not board.is_held
    for _ in range(5):
        board.undo()
    torch.testing.assert_close(board.picture, picture)


def test_slots_that_are_turned_stay_like_those_of_scenes() -> None:
    run = opened(SPRITES)
    slots = slots_of(run.model, run.scenes("test"), images=24).flatten(0, 1)
    metric, mean = metric_of(slots), slots.mean(dim=0)
    away = {}
    for way, chosen in (("like slots", metric), ("any", torch.eye(len(mean)))):
        board = board_of(SPRITES, 5)
        board.metric, k = chosen, an_object(board)
        turn_by(board, k, math.pi)
        assert not board.is_held
        assert board.now.turns[k].angle == pytest.approx(math.pi)
        z = board.slots[k] - mean
        away[way] = float(z @ metric @ z)
    assert away["like slots"] < 0.5 * away["any"], away


def test_an_object_can_be_moved_and_resized_while_it_is_turned() -> None:
    """As two fingers do."""
    board = board_of(SPRITES, 3)
    k = an_object(board)
    before = board.place(k)
    for n in range(1, 9):
        board.move(k, Move(down=0.02 * n, grow=0.03 * n, turn=0.1 * n), stroke=1)
    after = board.place(k)
    assert board.now.turns[k].angle == pytest.approx(0.8)
    assert before is not None
    assert after is not None
    assert after.down - before.down == pytest.approx(0.16, abs=0.05)
    assert math.log(after.size / before.size) == pytest.approx(0.24, abs=0.15)


@torch.no_grad()
def test_without_a_frame_a_moved_object_keeps_its_shape() -> None:
    """Seven pixels away it covers much of what it covered, shifted; by the gradient alone it changes on its way."""
    run = opened(BLOCKS)
    guide = learn_guide(run.model, run.scenes("test"))
    assert guide is not None
    missed, errors = {}, {}
    for way in ("guided", "by the gradient"):
        board = board_of(BLOCKS, 5)
        board.guide = guide if way == "guided" else None
        k = an_object(board)
        place, before = board.place(k), board.masks[k] * board.colours[k]
        for n in range(1, 9):
            board.move(k, Move(down=0.4 * n / 8, right=0.4 * n / 8), stroke=1)
        after = board.place(k)
        assert place is not None
        assert after is not None
        missed[way] = math.hypot(after.down - place.down - 0.4, after.right - place.right - 0.4)
        wanted = before.roll((7, 7), dims=(1, 2))  # 0.4 of 35 / 2 pixels
        errors[way] = float((board.masks[k] * board.colours[k] - wanted).norm() / wanted.norm())
    assert missed["guided"] < 0.03, missed
    assert errors["guided"] < 0.65, errors
    assert errors["guided"] < 0.9 * errors["by the gradient"], errors


def test_models_with_a_frame_need_no_guide() -> None:
    run = opened(SPRITES)
    assert learn_guide(run.model, run.scenes("test")) is None


def test_only_what_changed_is_painted_and_it_is_what_decode_shows() -> None:
    board = board_of(SPRITES)
    assert board.set_number(2, 0, 1.5, stroke=None) == [2]
    whole = board.model.decode(board.slots[None])
    torch.testing.assert_close(board.picture, whole.image[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(board.masks, whole.masks[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", sorted(MODELS.keys() - {"efficient-morl"}))  # which the others are about
def test_every_model_can_be_explored(kind: str) -> None:
    size = 32
    config = MODELS[kind].Config(image_size=size, num_slots=3)
    model = build(config).eval()
    x = torch.rand(1, 3, size, size)
    board = Board(model, x[0], model.decompose(x, seed=0).slots[0])
    expected = model.decode(board.slots[None])
    torch.testing.assert_close(board.picture, expected.image[0], atol=1e-4, rtol=0)
    board.move(1, Move(0.05, 0.05), stroke=1)
    board.remove(0, is_removed=True)
    assert torch.isfinite(board.picture).all()
    assert float(board.masks[0].max()) == 0


def test_undo_redo_and_reset() -> None:
    board = board_of(BLOCKS)
    first = board.slots.clone()
    for value in (0.1, 0.2, 0.3):
        board.set_number(0, 3, value, stroke=7)
    board.remove(1, is_removed=True)
    board.undo()
    assert board.now.removed == frozenset()
    board.undo()  # the three changes of one stroke
    assert torch.equal(board.slots, first)
    board.redo()
    assert float(board.slots[0, 3]) == pytest.approx(0.3)
    board.reset()
    assert torch.equal(board.slots, first)
    board.undo()
    assert float(board.slots[0, 3]) == pytest.approx(0.3)


def test_the_last_slot_stays() -> None:
    board = board_of(BLOCKS)
    for k in range(len(board.slots) - 1):
        board.remove(k, is_removed=True)
    with pytest.raises(UserError, match="last slot"):
        board.remove(len(board.slots) - 1, is_removed=True)


def test_objects_change_places() -> None:
    board = board_of(BLOCKS)
    one, two = [k for k in range(len(board.slots)) if board.place(k)][:2]
    before = [board.place(k) for k in (one, two)]
    board.swap(one, two)
    after = [board.place(k) for k in (two, one)]
    for old, new in zip(before, after, strict=True):
        assert old is not None
        assert new is not None
        assert math.hypot(old.down - new.down, old.right - new.right) < 0.12


def test_sliders_do_something_and_have_names() -> None:
    run = opened(BLOCKS)
    known = study(run.model, run.scenes("test"))
    assert {"x", "y"} <= set(known.labels)
    board = board_of(BLOCKS)
    k = an_object(board)
    ranked = most_active(board, k, known.ranges)
    assert len(ranked) == board.slots.shape[1]
    assert [value for _, value in ranked] == sorted((value for _, value in ranked), reverse=True)
    pictures = traversal(board, k, ranked[0][0], known.ranges, 4)
    assert float((pictures[0] - pictures[-1]).abs().max()) > 0.3


def test_no_factor_takes_all_sliders() -> None:
    ranked = [(0, 0.9), (1, 0.8), (2, 0.7), (3, 0.6), (4, 0.5), (5, 0.4), (6, 0.3)]
    chosen = varied(ranked, ("x", "x", "x", "", "", "", "color"), 6)
    assert [d for d, _ in chosen] == [0, 1, 3, 4, 5, 6]


def test_likeness_finds_the_factor_and_not_noise() -> None:
    rng = np.random.default_rng(0)
    group, value = rng.integers(0, 4, 200), rng.normal(size=200)
    codes = np.stack([group + 0.1 * rng.normal(size=200), -value, rng.normal(size=200)], axis=1)
    kinds = {"shape": "discrete", "x": "continuous"}
    assert names_of(codes, {"shape": group, "x": value}, kinds) == ("shape", "x", "")  # type: ignore[arg-type]
    assert likeness(codes, group, "discrete")[2] < 0.3
