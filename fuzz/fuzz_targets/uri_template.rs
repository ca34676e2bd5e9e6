//! The target of this name in `crates/fuzz`, for libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| toolyard_fuzz::run_case("uri_template", input));
