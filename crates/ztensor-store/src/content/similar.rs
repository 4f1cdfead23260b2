//! Which stored tensor is nearest to one that is added, by a few samples.

use super::chain::read_entry;
use super::cost;
use super::known::{Known, Place};
use crate::protocol::Protocol;
use crate::record::Encoding;
use ztensor::Result;

/// Bytes of one sample, and how many are taken.
const SAMPLE: u64 = 4096;
const SAMPLES: u64 = 3;
/// Candidates of the same name that are compared; more than the latest checkpoints of a few branches are not worth their decoding.
const NAMESAKES: usize = 4;
/// Candidates of another name.
const KIN: usize = 12;
/// Tensors of other names are bases from this similarity on. Unrelated weights of the same scale agree in less than half of their top bytes.
const RELATED: f64 = 0.75;

/// A tensor that is added, and what it may resemble.
pub(crate) struct Question<'a> {
    pub bytes: &'a [u8],
    /// Bytes of one element.
    pub width: usize,
    /// Whether the candidates have the tensor's own name.
    pub named: bool,
}

/// The candidate that is nearest and leaves room for one more delta, of at most `deepest`: of a longer or dearer chain its end is taken.
pub(crate) fn nearest(
    protocol: &Protocol,
    known: &Known,
    question: &Question<'_>,
    candidates: &[Place],
    deepest: u32,
) -> Result<Option<Place>> {
    let most = if question.named { NAMESAKES } else { KIN };
    let mut best: Option<(f64, Place)> = None;
    for candidate in candidates.iter().take(most) {
        if !known.is_usable(*candidate)? {
            continue;
        }
        if question.named && candidates.len() == 1 {
            best = Some((1.0, *candidate));
            break;
        }
        let score = similarity(protocol, known, question, *candidate)?;
        if (question.named || score >= RELATED) && best.is_none_or(|(found, _)| score > found) {
            best = Some((score, *candidate));
        }
    }
    Ok(best.and_then(|(_, place)| shorten(known, place, deepest)))
}

/// The share of elements in the samples whose top byte, which has sign and exponent, is the same.
fn similarity(protocol: &Protocol, known: &Known, question: &Question<'_>, place: Place) -> Result<f64> {
    let length = known.entry(place).length.min(question.bytes.len() as u64);
    let width = question.width.max(1);
    let (mut same, mut all) = (0, 0);
    for number in 0..SAMPLES {
        let size = SAMPLE.min(length);
        let start = (length - size) * number / (SAMPLES - 1) / 8 * 8;
        let mut stored = vec![0; size as usize];
        read_entry(protocol, known.manifest(place), place.entry, start, &mut stored)?;
        let ours = &question.bytes[start as usize..(start + size) as usize];
        let tops =
            |bytes: &'_ [u8]| bytes.iter().skip(width - 1).step_by(width).copied().collect::<Vec<u8>>();
        let (ours, theirs) = (tops(ours), tops(&stored));
        same += ours.iter().zip(&theirs).filter(|(a, b)| a == b).count();
        all += ours.len();
    }
    Ok(same as f64 / all.max(1) as f64)
}

/// The place, or where its chain has no room for one more delta the chain's end of the same type.
fn shorten(known: &Known, place: Place, deepest: u32) -> Option<Place> {
    let manifest = known.manifest(place);
    let fits = |entry| manifest.depth(entry) < deepest && cost::has_room(&manifest.entries, entry);
    let mut entry = place.entry;
    if fits(entry) {
        return Some(place);
    }
    while let Encoding::Delta { base } = &manifest.entries[entry].encoding {
        entry = *base;
    }
    let end = Place { entry, ..place };
    (fits(entry) && known.may_be_base(end)).then_some(end)
}
