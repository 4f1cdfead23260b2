//! Signs of the adaptive coder: the tables of a run are looked up in memory.

use super::lanes::{FilterRegisters, WordRegisters};
use crate::arch::eight::EightLanes;
use crate::entropy::mixing::{PROBABILITY_BITS, SUM_BITS, SUMS};
use crate::entropy::rans::{MIXED_LANES, MixedDecoder};
use crate::transform::adaptive::{BIASES, FILTER_PLACES, NEIGHBOURHOODS, SignRun};

/// Decodes the signs of a run.
#[inline(always)]
pub(super) fn decode<V: EightLanes>(kernel: V::Kernel, run: &mut SignRun, decoder: &mut MixedDecoder) {
    let steps = run.steps;
    let (classes, lessons) = (&run.classes[..steps], &mut run.lessons[..steps]);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    let columns = run.columns.as_mut_ptr();
    // SAFETY: the places are inside, and as many columns as there are steps follow each.
    let places = run.places.map(|place| unsafe { columns.add(place) });
    let sources = places.map(<*mut i32>::cast_const);
    let last = run.first.checked_sub(1).and_then(|last| run.signs.get(last)).copied().unwrap_or(0);
    let (neighbourhoods, _) = run.place_odds.as_chunks::<NEIGHBOURHOODS>();
    let all = |number: i32| V::all(kernel, number);
    // A bias of -1 to 1 in eleven steps.
    let bias_step = |bias: V| bias.shift_left::<2>().add(bias).add(all(11 << 14)).shift_right_signed::<15>();

    let mut stream = WordRegisters::<V>::new(kernel, decoder, run.lanes, steps);
    let mut rows = V::load(kernel, run.rows);
    let mut filters = FilterRegisters::<V>::new(kernel, run.filters, run.lanes);
    let mut left = V::lanes_of(kernel, last);
    let mut corner = V::lanes_of(kernel, run.above.of(run.first.wrapping_sub(1), run.signs));
    for step in 0..steps {
        let above = V::lanes_of(kernel, run.above.of(run.first + step, run.signs));
        // SAFETY: the step is one of the run's.
        let column = unsafe { V::load_each(kernel, &sources, step) };
        let most = FILTER_PLACES as i32 - 1;
        let neighbours = left.and(all(2)).or(above.and(all(1))).or(corner.and(all(4)));
        let by_place = filters.each.least_unsigned(all(most)).shift_left::<3>().or(neighbours);
        let place_odds = match filters.common {
            // The eight that it can be are looked up in a register.
            Some(place) => V::look_up_eight(&neighbourhoods[place.clamp(0, most) as usize], neighbours),
            // SAFETY: there are odds for all neighbourhoods of all places up to the last.
            None => unsafe { V::look_up(run.place_odds.as_ptr(), by_place) },
        };
        let across = bias_step(column).multiply(all(BIASES as i32));
        let by_bias = across.add(bias_step(rows)).and(all(127));
        // SAFETY: there are 128.
        let odds = unsafe { V::look_up(run.bias_odds.as_ptr(), by_bias) }.add(place_odds);
        let sum = odds.shift_right_signed::<{ SUM_BITS as i32 }>().add(all(SUMS as i32 / 2));
        let sum = sum.least(all(SUMS as i32 - 1)).greatest(all(0));
        let class = V::load_bytes(kernel, &classes[step]).and(all(7));
        let by_sum = class.shift_left::<{ SUMS.ilog2() as i32 }>().or(sum);
        let lesson = by_sum.shift_left::<16>().or(by_place.shift_left::<8>()).or(by_bias);
        lesson.store(bytemuck::cast_mut(&mut lessons[step]));

        // SAFETY: there are chances for all sums of eight classes.
        let chance = unsafe { V::look_up(run.chances.as_ptr().cast(), by_sum) };
        let slot = stream.slots();
        let negative = chance.is_greater(slot);
        let share = chance.multiply(stream.states.shift_right::<{ PROBABILITY_BITS as i32 }>());
        let others = stream.states.sub(share).sub(chance);
        // SAFETY: so many steps were announced.
        unsafe { stream.advance(share.add(slot).select(others, negative)) };

        // 2^15 or -2^15.
        let side = negative.and(all(1 << 16)).sub(all(1 << 15));
        let further = side.sub(column);
        let further = further.shift_left::<2>().add(further).shift_right_signed::<6>();
        // SAFETY: the step is one of the run's.
        unsafe { column.add(further).store_each(&places, step) };
        rows = rows.add(side.shift_right_signed::<4>().sub(rows.shift_right_signed::<4>()));
        filters.advance();
        if let Some(target) = run.signs.get_mut(run.first + step) {
            *target = stream.active(negative);
        }
        (left, corner) = (negative, above);
    }
    let mut new_rows = [0; MIXED_LANES];
    rows.store(&mut new_rows);
    for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
        run.rows[lane] = new_rows[lane];
    }
    stream.finish(decoder);
}
