//! What fuzz targets share: opening bytes as a file and decoding every tensor of a moderate size, and a case for the codec from bytes.

use z4ai::{Dtype, Effort, Options};
use ztensor::Reader;

/// Larger tensors are legal, but decoding them tells nothing new and slows the search.
const LARGEST: u64 = 16 << 20;

/// Opens a file and decodes what is in it.
pub fn read(bytes: &[u8]) {
    let Ok(reader) = Reader::from_bytes(bytes.to_vec()) else { return };
    for (name, object) in reader.objects() {
        for (role, component) in &object.components {
            if component.length <= LARGEST {
                let _ = reader.component_bytes(name, role);
            }
        }
        if object.decoded_length() <= LARGEST / 16 {
            let _ = reader.check_sparse(name);
            let _ = reader.dequantize(name);
        }
    }
}

/// Bytes that begin with a format's magic, which is put in front of those that do not: hardly an input would get past detection otherwise, and whole files serve as seeds.
pub fn with_magic(magic: &[u8], bytes: &[u8]) -> Vec<u8> {
    if bytes.starts_with(magic) { bytes.to_vec() } else { [magic, bytes].concat() }
}

/// Makes this thread the only one that works: waking others takes longer than most inputs do.
pub fn one_thread() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().expect("nothing has used the pool before");
}

/// Options and data for the codec. Four bytes choose dtype and effort, row length, and how often the others are repeated with changes, so that small
/// inputs reach the code for long tensors.
pub fn codec_case(data: &[u8]) -> Option<(Options, Vec<u8>)> {
    let (&[dtype, choice, row, repeat], bytes) = data.split_first_chunk::<4>()?;
    let dtype = Dtype::all().nth(usize::from(dtype) % (Dtype::all().count() + 1));
    let effort = [Effort::Fast, Effort::Default, Effort::Max][usize::from(choice) % 3];
    let mut options = Options { dtype, effort, threads: 1, ..Options::default() };
    let mut long = Vec::new();
    // The coders have 32 lanes from 32,768 elements on; few inputs should pay for that.
    let most = if repeat >= 250 { 1 << 17 } else { 1 << 13 };
    for turn in 0..1 + usize::from(repeat) * usize::from(repeat) / 16 {
        if long.len() > most {
            break;
        }
        let change = (turn as u8).wrapping_mul(choice);
        long.extend(bytes.iter().map(|byte| byte.wrapping_add(change)));
    }
    let row_bytes = usize::from(row) * dtype.map_or(1, Dtype::width);
    if let Some(rows) = long.len().checked_div(row_bytes) {
        long.truncate(rows * row_bytes);
        options.shape = Some(vec![rows as u64, u64::from(row)]);
    }
    Some((options, long))
}
