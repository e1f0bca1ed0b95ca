#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| rialto_fuzz::stream_frame::check(data));
