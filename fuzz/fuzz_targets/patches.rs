#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = innkeeper_test_decoders::target("patches").expect("a target");
    (target.read)(bytes);
});
