//! Tests of valid frames, and of the close code for each violation.

use super::*;
use proptest::prelude::*;

const LIMITS: FrameLimits = FrameLimits { message: 1000, parts: 4 };

/// A client's frame.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = frame(0, payload);
    out[0] = first;
    out[1] |= 0x80;
    let at = out.len() - payload.len();
    let mask = [0x11, 0x22, 0x33, 0x44];
    for (i, byte) in out[at..].iter_mut().enumerate() {
        *byte ^= mask[i % 4];
    }
    out.splice(at..at, mask);
    out
}

fn read(bytes: &[u8]) -> Result<Vec<ClientFrame>, u16> {
    let mut frames = FrameReader::new(LIMITS);
    frames.input().extend_from_slice(bytes);
    let mut all = Vec::new();
    while let Some(got) = frames.take().map_err(|close| close.code)? {
        all.push(got);
    }
    Ok(all)
}

#[test]
fn messages_are_read_whole_or_fragmented_with_control_frames_between() {
    let whole = masked(0x81, "é".as_bytes());
    assert_eq!(read(&whole), Ok(vec![ClientFrame::Text("é".into())]));
    let parts = [masked(0x01, &[0xC3]), masked(0x89, b"hi"), masked(0x80, &[0xA9])].concat();
    assert_eq!(read(&parts), Ok(vec![ClientFrame::Ping("hi".into()), ClientFrame::Text("é".into())]));
    let large = vec![b'a'; 1000];
    assert_eq!(read(&masked(0x81, &large)), Ok(vec![ClientFrame::Text(large.into())]));
    assert_eq!(read(&masked(0x88, b"")), Ok(vec![ClientFrame::Close(None)]));
    assert_eq!(read(&masked(0x88, b"\x03\xe8bye")), Ok(vec![ClientFrame::Close(Some(1000))]));
    assert_eq!(read(&masked(0x8A, b"x")), Ok(vec![ClientFrame::Pong]));
}

#[test]
fn every_violation_has_its_close_code() {
    let unmasked = [text_header(2), b"{}".to_vec()].concat();
    let mut long_form = vec![0x81, 0x80 | 126, 0, 5];
    long_form.extend_from_slice(&[0; 9]);
    for (what, bytes, code) in [
        ("unmasked", unmasked, code::PROTOCOL),
        ("a reserved bit", masked(0xC1, b""), code::PROTOCOL),
        ("a reserved opcode", masked(0x83, b""), code::PROTOCOL),
        ("a long control frame", masked(0x89, &[0; 126]), code::PROTOCOL),
        ("a control frame in parts", masked(0x09, b""), code::PROTOCOL),
        ("a continuation of nothing", masked(0x80, b""), code::PROTOCOL),
        ("a message within another", [masked(0x01, b"a"), masked(0x81, b"b")].concat(), code::PROTOCOL),
        ("a length that could be shorter", long_form, code::PROTOCOL),
        ("half a close code", masked(0x88, b"\x03"), code::PROTOCOL),
        ("a close code that is never sent", masked(0x88, b"\x03\xed"), code::PROTOCOL),
        ("binary", masked(0x82, b""), code::UNSUPPORTED),
        ("not UTF-8", masked(0x81, b"\xff"), code::NOT_TEXT),
        ("a reason that is not UTF-8", masked(0x88, b"\x03\xe8\xff"), code::NOT_TEXT),
        ("too large", masked(0x81, &[b'a'; 1001]), code::TOO_BIG),
        (
            "too large in parts",
            [masked(0x01, &[b'a'; 600]), masked(0x80, &[b'a'; 401])].concat(),
            code::TOO_BIG,
        ),
        ("too many parts", [masked(0x01, b""), masked(0, b"").repeat(4)].concat(), code::POLICY),
    ] {
        assert_eq!(read(&bytes), Err(code), "{what}");
    }
}

#[test]
fn a_frame_too_large_is_rejected_by_its_header_alone() {
    let mut announced = vec![0x81, 0x80 | 127];
    announced.extend_from_slice(&(1u64 << 62).to_be_bytes());
    announced.extend_from_slice(&[0; 4]);
    assert_eq!(read(&announced), Err(code::TOO_BIG));
}

#[test]
fn a_close_frame_is_limited_in_size_for_any_reason() {
    let frame = close(&Close::new(code::POLICY, "é".repeat(100)));
    assert_eq!((frame[0], usize::from(frame[1]) + 2), (0x88, frame.len()));
    assert!(frame.len() <= 127 && std::str::from_utf8(&frame[4..]).is_ok());
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_messages(
        texts in prop::collection::vec("\\PC{0,80}", 0..6), cuts in prop::collection::vec(1usize..40, 1..40),
    ) {
        let bytes: Vec<u8> = texts.iter().flat_map(|text| masked(0x81, text.as_bytes())).collect();
        let (mut frames, mut all, mut rest) = (FrameReader::new(LIMITS), Vec::new(), bytes.as_slice());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, left) = rest.split_at((*cut).min(rest.len()));
            rest = left;
            frames.input().extend_from_slice(piece);
            while let Some(got) = frames.take().unwrap() {
                all.push(got);
            }
        }
        prop_assert!(!frames.is_mid_message());
        let expected: Vec<ClientFrame> = texts.into_iter().map(|text| ClientFrame::Text(text.into())).collect();
        prop_assert_eq!(all, expected);
    }

    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        // Most random bytes fail early; after a valid frame they reach more code.
        let _ = read(&[masked(0x01, b"a"), bytes].concat());
    }
}
