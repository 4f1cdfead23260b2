//! PyTorch files: pickles inside an archive that is always right, because a fuzzer would spend its time on the zip directory; and streams.
#![no_main]

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let file = match data.split_first() {
        Some((0, stream)) => [b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", stream].concat(),
        // Whole files are ones to start from.
        Some((b'P' | 0x80, _)) => data.to_vec(),
        Some((_, pickle)) => archive(&[("m/data.pkl", pickle), ("m/data/0", &[0x42; 64])]),
        None => return,
    };
    ztensor_fuzz::read(&file);
    let _ = ztensor::scan::scan_bytes(file);
});

/// A zip archive of stored members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let (size, offset) = ((content.len() as u32).to_le_bytes(), (file.len() as u32).to_le_bytes());
        let shared = [&[0; 12][..], &size, &size, &(name.len() as u16).to_le_bytes(), &[0, 0]].concat();
        file.extend([b"PK\x03\x04\x0a\x00", &shared[..], name.as_bytes(), content].concat());
        directory.extend(
            [b"PK\x01\x02\x0a\x00\x0a\x00", &shared[..], &[0; 10], &offset, name.as_bytes()].concat(),
        );
    }
    let (count, start, length) =
        ((members.len() as u16).to_le_bytes(), file.len() as u32, directory.len() as u32);
    let end =
        [&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &length.to_le_bytes(), &start.to_le_bytes(), &[0, 0]]
            .concat();
    [file, directory, end].concat()
}
