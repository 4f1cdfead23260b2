use super::super::table::{Histogram, SYMBOLS};
use super::*;
use crate::arch::Kernel;
use crate::frame::wire::{Reader, put_length};
use proptest::prelude::*;

fn tables(symbols: &[u8], contexts: &[u8], count: usize, precision: u32) -> Vec<FrequencyTable> {
    let mut histograms: Vec<Histogram> = vec![[0; SYMBOLS]; count];
    for (index, &symbol) in symbols.iter().enumerate() {
        histograms[usize::from(contexts.get(index).copied().unwrap_or(0))][usize::from(symbol)] += 1;
    }
    histograms
        .iter_mut()
        .map(|histogram| {
            histogram[7] += 1;
            FrequencyTable::normalise(histogram, precision)
        })
        .collect()
}

fn decode_all(
    lanes: usize,
    tables: &DecoderTables,
    stream: &[u8],
    offsets: &[u16],
    count: usize,
) -> Result<Vec<u8>> {
    let mut reader = Reader::new(stream, "test");
    let mut decoder = SymbolDecoder::open_in(lanes, tables, &mut reader)?;
    let mut decoded = vec![0; count];
    for (start, piece) in decoded.chunks_mut(4096).enumerate() {
        let offsets = if offsets.is_empty() { offsets } else { &offsets[start * 4096..][..piece.len()] };
        decoder.decode(offsets, piece)?;
    }
    decoder.finish()?;
    Ok(decoded)
}

fn round_trip(symbols: &[u8], contexts: &[u8], count: usize, precision: u32) {
    let tables = tables(symbols, contexts, count, precision);
    let tables = Tables::new(tables).unwrap();
    let offsets: Vec<u16> = contexts.iter().map(|&context| u16::from(context) << precision).collect();
    for lanes in [1, 4, LANES, MOST_LANES] {
        round_trip_in(lanes, &tables, symbols, contexts, &offsets);
    }
}

fn round_trip_in(lanes: usize, tables: &Tables, symbols: &[u8], contexts: &[u8], offsets: &[u16]) {
    let mut reference: Option<Vec<u8>> = None;
    for kernel in Kernel::available() {
        kernel.run(|| {
            let mut stream = Vec::new();
            encode_in(lanes, tables.encoder(), symbols, contexts, &mut stream);
            assert_eq!(*reference.get_or_insert_with(|| stream.clone()), stream, "{kernel:?}");
            let decoded = decode_all(lanes, tables.decoder(), &stream, offsets, symbols.len()).unwrap();
            assert_eq!(decoded, symbols, "{kernel:?}");
            // Cut off in its last word, or in its states if it has no words, the stream is refused.
            let mut length = Reader::new(&stream, "test");
            let body = length.length().unwrap() - 2;
            let mut cut = Vec::new();
            put_length(&mut cut, body);
            cut.extend_from_slice(&length.rest()[..body]);
            assert!(decode_all(lanes, tables.decoder(), &cut, offsets, symbols.len()).is_err());
        });
    }
}

#[test]
fn long_streams_survive_on_every_kernel() {
    let symbols: Vec<u8> = (0..70_001u32).map(|i| (i.wrapping_mul(i) >> 7 & i >> 3) as u8 & 0x3f).collect();
    let contexts: Vec<u8> = (0..70_001u32).map(|i| (i.wrapping_mul(2654435761) >> 30) as u8).collect();
    for precision in 8..=12 {
        round_trip(&symbols, &contexts, 4, precision);
        round_trip(&symbols, &[], 1, precision);
    }
    round_trip(&[9; 40_000], &[], 1, 12);
}

#[test]
fn streams_of_few_and_of_many_symbols_survive_with_contexts_that_change_seldom_or_often() {
    let random = |index: u32| index.wrapping_mul(2_654_435_761) ^ index.wrapping_mul(40_503) >> 3;
    let count = 6_000;
    // The first symbols are what escapes are, far from the others.
    for (first, span) in [(4, 60), (4, 61), (100, 59), (100, 60), (100, 124), (100, 125), (0, 256)] {
        let symbols: Vec<u8> = (0..count)
            .map(|index| match random(index) >> 8 {
                value if value % 50 < 2 => (value % 4) as u8,
                value => (first + value % span) as u8,
            })
            .collect();
        for stay in [1, 3, 61, 1000] {
            let contexts: Vec<u8> = (0..count).map(|index| (random(index / stay) >> 13) as u8 & 3).collect();
            round_trip(&symbols, &contexts, 4, 11);
            let two: Vec<u8> = contexts.iter().map(|context| context & 1).collect();
            round_trip(&symbols, &two, 2, 12);
        }
    }
}

proptest! {
    #[test]
    fn kernels_agree_on_encode_symbols_and_decode_symbols(symbols in proptest::collection::vec(any::<u8>(), 1..2000), precision in 8u32..=12) {
        round_trip(&symbols, &[], 1, precision);
    }
}
