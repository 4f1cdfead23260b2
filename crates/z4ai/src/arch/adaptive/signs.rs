//! Signs of the adaptive coder: the tables of a run are looked up in memory.

use super::lanes::{FilterRegisters, WordRegisters};
use crate::arch::eight::EightLanes;
use crate::entropy::mixing::{PROBABILITY_BITS, SUM_BITS, SUMS};
use crate::entropy::rans::{MIXED_LANES, MixedDecoder};
use crate::transform::adaptive::{BIASES, FILTER_PLACES, NEIGHBOURHOODS, SignRun};

/// Decodes the signs of a run.
///
/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn decode<V: EightLanes>(run: &mut SignRun, decoder: &mut MixedDecoder) {
    let steps = run.steps;
    assert!(run.classes.len() >= steps && run.lessons.len() >= steps);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    let columns = run.columns.as_mut_ptr();
    // SAFETY: the places are inside, and as many columns as there are steps follow each.
    let places = run.places.map(|place| unsafe { columns.add(place) });
    let sources = places.map(<*mut i32>::cast_const);
    let last = run.first.checked_sub(1).and_then(|last| run.signs.get(last)).copied().unwrap_or(0);
    // SAFETY: `step` is below the number of steps, with which the lengths above agree; indices are made to be
    // inside their tables. The caller vouches for the instructions.
    unsafe {
        let mut stream = WordRegisters::<V>::new(decoder, run.lanes, steps);
        let mut rows = V::load(run.rows.as_ptr());
        let mut kernels = FilterRegisters::<V>::new(run.kernels, run.lanes);
        let mut left = V::lanes_of(last);
        let mut corner = V::lanes_of(run.above.of(run.first.wrapping_sub(1), run.signs));
        for step in 0..steps {
            let above = V::lanes_of(run.above.of(run.first + step, run.signs));
            let column = V::load_each(&sources, step);
            let most = FILTER_PLACES as i32 - 1;
            let neighbours = left.and(V::all(2)).or(above.and(V::all(1))).or(corner.and(V::all(4)));
            let by_place = kernels.each.least_unsigned(V::all(most)).shift_left::<3>().or(neighbours);
            let place_odds = match kernels.common {
                // The eight that it can be are looked up in a register.
                Some(place) => {
                    let eight = run.place_odds.as_ptr().add(NEIGHBOURHOODS * place.clamp(0, most) as usize);
                    V::look_up_eight(eight, neighbours)
                }
                None => V::look_up(run.place_odds.as_ptr(), by_place),
            };
            let across = bias_step(column).multiply(V::all(BIASES as i32));
            let by_bias = across.add(bias_step(rows)).and(V::all(127));
            let odds = V::look_up(run.bias_odds.as_ptr(), by_bias).add(place_odds);
            let sum = odds.shift_right_signed::<{ SUM_BITS as i32 }>().add(V::all(SUMS as i32 / 2));
            let sum = sum.least(V::all(SUMS as i32 - 1)).greatest(V::all(0));
            let class = V::load_bytes(run.classes.as_ptr().add(step).cast()).and(V::all(7));
            let by_sum = class.shift_left::<{ SUMS.ilog2() as i32 }>().or(sum);
            let lesson = by_sum.shift_left::<16>().or(by_place.shift_left::<8>()).or(by_bias);
            lesson.store(run.lessons.as_mut_ptr().add(step).cast());

            let chance = V::look_up(run.chances.as_ptr().cast(), by_sum);
            let slot = stream.slots();
            let negative = chance.is_greater(slot);
            let share = chance.multiply(stream.states.shift_right::<{ PROBABILITY_BITS as i32 }>());
            let others = stream.states.sub(share).sub(chance);
            stream.advance(share.add(slot).select(others, negative));

            // 2^15 or -2^15.
            let side = negative.and(V::all(1 << 16)).sub(V::all(1 << 15));
            let further = side.sub(column);
            let further = further.shift_left::<2>().add(further).shift_right_signed::<6>();
            column.add(further).store_each(&places, step);
            rows = rows.add(side.shift_right_signed::<4>().sub(rows.shift_right_signed::<4>()));
            kernels.advance();
            if let Some(target) = run.signs.get_mut(run.first + step) {
                *target = stream.active(negative);
            }
            (left, corner) = (negative, above);
        }
        let mut new_rows = [0; MIXED_LANES];
        rows.store(new_rows.as_mut_ptr());
        for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
            run.rows[lane] = new_rows[lane];
        }
        stream.finish(decoder);
    }
}

/// A bias of -1 to 1 in eleven steps.
///
/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
unsafe fn bias_step<V: EightLanes>(bias: V) -> V {
    // SAFETY: the caller vouches for the instructions.
    unsafe { bias.shift_left::<2>().add(bias).add(V::all(11 << 14)).shift_right_signed::<15>() }
}
