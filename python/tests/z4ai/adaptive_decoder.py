"""Model 10 of ``spec/z4ai.md``, adaptive, for ``frame_decoder``."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

from frame_decoder import (
    MODELS,
    Bytes,
    Decoder,
    Element,
    read_plane,
    read_table,
    read_tails,
    read_verbatim,
    shape_table,
)

OCTAVE = 8192


class Estimate:
    """What is expected on top of the base, in 2^-13 octaves."""

    def __init__(self, inertia: int) -> None:
        self.value, self.inertia = 0, inertia

    def take(self, move: int, count: int) -> None:
        rate = 0 if self.inertia == 7 else (1 << 14) // (min(count, 255) + (1 << self.inertia) + 1)
        self.value += move * rate >> 14


def power(x: int) -> int:
    value = round(16384 * 2 ** (x % 64 / 64))
    return value << (x >> 6) if x >= 0 else value >> -(x >> 6)


def move_of(style: int, d: int) -> int:
    if d < -272:
        return 0
    d = max(d, -256)
    u, t = (4, 3, 3, 2)[style], (0, 0, 512, 512)[style]
    return (47272 // u * (power(u * (min(d, 56) - 8)) - 16384) >> 14) + (t * (d + 80) if d < -80 else 0)


LOGISTIC = [round(65536 / (1 + math.exp(-half / 2))) for half in range(-16, 17)]


def squash(x: int) -> int:
    j, y = (x >> 7) + 16, x % 128
    return (LOGISTIC[j] * (128 - y) + LOGISTIC[j + 1] * y + 64) >> 7


SQUASHED = [squash(x) for x in range(-2047, 2047)]


class Tally:
    """Signs seen, and how many of them were negative."""

    def __init__(self) -> None:
        self.ones = self.seen = self.new_ones = self.new_seen = 0

    def share(self, assumed: int, weight: int) -> int:
        return (65536 * self.ones + assumed * weight) // (self.seen + weight)

    def odds(self) -> int:
        wanted = 16 * (self.share(1 << 15, 8) >> 4) + 8
        return bisect.bisect_left(SQUASHED, wanted) - 2047

    def note(self, sign: int) -> None:
        self.new_seen += 1
        self.new_ones += sign

    def learn(self) -> None:
        self.seen, self.ones = self.seen + self.new_seen, self.ones + self.new_ones
        self.new_seen = self.new_ones = 0
        if self.seen > 4096:
            self.seen, self.ones = self.seen >> 1, self.ones >> 1


@dataclass
class Lane:
    """One of the coders that go forward side by side."""

    places: list[int]
    state: int
    row: Estimate
    kernel: Estimate
    left_was_dust: bool = False
    row_bias: int = 0

    def __post_init__(self) -> None:
        self.signs: list[int] = []
        self.above = 0


def adaptive_model(reader: Bytes, section: int, element: Element) -> Decoder:
    r = reader.varint()
    k = reader.varint()
    line = reader.varint() if k else r
    k = k or 1
    base = reader.varint()
    inertia, more = reader.u8(), reader.u8()
    style, with_signs, kind = inertia >> 6, more >> 3 & 1, more >> 4
    if kind < 2:
        shape = reader.take(3)
        rates = reader.take(4 if kind else 1)
        tables = [shape_table(shape, rate, 2 * phase) for rate in rates for phase in range(8)]
    else:
        tables = [read_table(reader, 12) for _ in range(32 if kind == 3 else 8)]
    tails = read_tails(reader, section, element)
    exponent_bits = element.exponent_bits
    head_bits = 15 - exponent_bits

    def decoder(block: Bytes, count: int, at: int) -> list[int]:
        stream = Bytes(block.take(block.varint()))
        escaped = block.varint()
        escapes = iter(read_plane(block, escaped) if escaped else b"")
        fields = read_verbatim(block, count, head_bits - 2 + (not with_signs))
        number_of_lanes = 1 if count < 8192 or count // r < 8 or r < 8 else 8
        lag = r // 8 if r // 8 < k else r // 8 // k * k
        lanes = []
        for number in range(number_of_lanes):
            rows = range(number, -(-count // r), number_of_lanes)
            places = [place for row in rows for place in range(row * r, min(row * r + r, count))]
            lanes.append(Lane(places, stream.u32(), Estimate(inertia & 7), Estimate(more & 7)))
        begins = [number * lag for number in range(number_of_lanes)]
        ends = [begin + len(lane.places) for begin, lane in zip(begins, lanes, strict=True)]
        columns = [Estimate(inertia >> 3 & 7) for _ in range(r)]
        column_dust, column_sign, column_bias = [False] * r, [0] * r, [0] * r
        tallies = [[Tally() for _ in range(size)] for size in (121, 256, 384)]
        symbols, exponents, distances, signs = [0] * count, [0] * count, [0] * count, [0] * count

        def take(lane: Lane, start: int, frequency: int) -> None:
            lane.state = frequency * (lane.state >> 12) + lane.state % 4096 - start
            if lane.state < 1 << 15:
                lane.state = lane.state << 16 | stream.u16()

        def magnitude(lane: Lane, place: int) -> None:
            row, column = divmod(place, r)
            column_estimate = columns[column]
            q = base * OCTAVE // 8 + column_estimate.value + lane.row.value + lane.kernel.value
            q = min(max(q, 0), (OCTAVE << exponent_bits) - 1)
            context = (q >> 10) % 8 + 8 * lane.left_was_dust + 16 * column_dust[column]
            table = tables[context % len(tables)]
            symbol = table.symbols[lane.state & 4095]
            take(lane, table.starts[symbol], table.frequencies[symbol])
            part = symbol >> 2
            symbols[place] = symbol
            exponents[place] = (part - 48 + (q >> 13)) % (1 << exponent_bits) if part else next(escapes)
            d = 4 * (exponents[place] << 2 | symbol & 3) + 2 - (q >> 9)
            distances[place] = d
            move = move_of(style, d)
            lane.row.take(move, column)
            column_estimate.take(move, row)
            if k == 1:
                lane.kernel.value += move * 163 >> 14
                lane.kernel.value -= lane.kernel.value >> 8
            else:
                lane.kernel.take(move, column % k)
                if column % k == k - 1:
                    lane.kernel.value = 0
            lane.left_was_dust = column_dust[column] = d < -272
            if column == r - 1:
                lane.row.value = int(lane.row.value / 4)
                lane.kernel.value, lane.left_was_dust = 0, False

        def sign(lane: Lane, place: int) -> None:
            column = place % r
            if column == 0:
                lane.row_bias = 0
            left = lane.signs[-1] if lane.signs else 0
            corner = lane.above
            if k > 1:
                lane.above = lane.signs[-line] if len(lane.signs) >= line else 0
            else:
                lane.above = column_sign[column]
            steps = [(5 * bias + 180224) >> 15 for bias in (column_bias[column], lane.row_bias)]
            first = tallies[0][11 * steps[0] + steps[1]]
            second = tallies[1][8 * min(column % k, 31) + 4 * corner + 2 * left + lane.above]
            kind = min(max((distances[place] + 54) >> 4, 0), 5)
            total = min(max(((first.odds() + second.odds()) >> 6) + 32, 0), 63)
            third = tallies[2][64 * kind + total]
            p = min(max(third.share(squash(11 * (64 * total - 2016) >> 4), 16) // 16, 16), 4080)
            negative = int(lane.state % 4096 < p)
            take(lane, 0 if negative else p, p if negative else 4096 - p)
            for tally in (first, second, third):
                tally.note(negative)
            bias = column_bias[column]
            column_bias[column] = bias + ((65536 * negative - 32768 - bias) * 5 >> 6)
            lane.row_bias += 4096 * negative - 2048 - (lane.row_bias >> 4)
            column_sign[column] = signs[place] = negative
            lane.signs.append(negative)

        step = 0
        while step < max(ends):
            after = step + min(max(step // 2, 16), 512)
            after = min([after, *(event for event in begins + ends if event > step)])
            turns = [
                (lane, lane.places[now - begin])
                for now in range(step, after)
                for lane, begin, end in zip(lanes, begins, ends, strict=True)
                if begin <= now < end
            ]
            for lane, place in turns:
                magnitude(lane, place)
            if with_signs:
                for lane, place in turns:
                    sign(lane, place)
                for tally in (tally for kind in tallies for tally in kind if tally.new_seen):
                    tally.learn()
            step = after
        assert stream.left() == 0 and all(lane.state == 1 << 15 for lane in lanes) and next(escapes, None) is None
        values = []
        low_bits = head_bits - 2
        for place, tail in enumerate(tails(block, count, at)):
            head = exponents[place] << head_bits | (symbols[place] & 3) << low_bits
            head |= fields[place] & ((1 << low_bits) - 1)
            negative = signs[place] if with_signs else fields[place] >> low_bits
            values.append((negative << 15 | head) << 8 * (element.width - 2) | tail)
        return values

    return decoder


MODELS[10] = adaptive_model
