//! Frames and deltas of every model, dtype and effort, taken apart and mutated behind their checksums: the input is a list of choices, not bytes of a frame. Each combination is reported when
//! it is first met, so that the log shows whether all models took part.
#![no_main]

use std::collections::BTreeSet;
use std::sync::Mutex;

static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let sightings = z4ai::agreement::structure::run(data);
    let mut seen = SEEN.lock().expect("nobody panics while holding it");
    for sighting in sightings {
        if !seen.contains(&sighting) {
            eprintln!("met {}: {sighting}", seen.len() + 1);
            seen.insert(sighting);
        }
    }
});
