//! The encoder's side of a stream. It runs backwards, from the last symbol to the first, so that the decoder
//! can run forwards; for the same reason its words fill a buffer from the end.

use super::{EncoderTables, MOST_LANES, STATE_MIN, Steps};
use crate::arch::dispatch;
use crate::frame::wire::put_length;
use std::cell::RefCell;

/// Bytes that kernels may touch before the words of a group.
pub(crate) const WORD_MARGIN: usize = 2 * MOST_LANES;

thread_local! {
    /// The words of the stream at hand. Blocks have streams of about the same length, so the memory is kept.
    static STREAM_WORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Encodes `symbols` in this number of lanes (1, 4, [`super::LANES`] or [`MOST_LANES`]), each in the context
/// of the same index (or all in context 0 when `contexts` is empty), and appends the stream's length and the
/// stream. Every symbol must have a frequency in its context's table.
pub(crate) fn encode_in(
    lanes: usize,
    tables: &EncoderTables,
    symbols: &[u8],
    contexts: &[u8],
    out: &mut Vec<u8>,
) {
    STREAM_WORDS.with_borrow_mut(|words| {
        let needed = room_for(symbols.len());
        if words.len() < needed {
            words.resize(needed, 0);
        }
        let start = encode_before(lanes, tables, symbols, contexts, words);
        out.extend_from_slice(words.get(start..).unwrap_or_default());
    });
}

/// Bytes that [`encode_before`] needs for so many symbols.
pub(crate) fn room_for(count: usize) -> usize {
    const LENGTH: usize = 10;
    2 * count + WORD_MARGIN + 4 * MOST_LANES + LENGTH
}

/// Writes what [`encode_in`] appends so that it ends where `room` does, and returns where it begins. There is
/// at least as much room as [`room_for`] says.
pub(crate) fn encode_before(
    lanes: usize,
    tables: &EncoderTables,
    symbols: &[u8],
    contexts: &[u8],
    room: &mut [u8],
) -> usize {
    let mut states = [STATE_MIN; MOST_LANES];
    let start =
        dispatch!(kernel => kernel.encode_symbols(tables, lanes, &mut states, symbols, contexts, room));
    let mut head = Vec::with_capacity(16 + 4 * lanes);
    put_length(&mut head, 4 * lanes + room.len() - start);
    states.iter().take(lanes).for_each(|state| head.extend_from_slice(&state.to_le_bytes()));
    let begin = start.saturating_sub(head.len());
    room[begin..start].copy_from_slice(&head[..start - begin]);
    begin
}
