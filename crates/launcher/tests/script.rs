//! A launch script is read as it was written, and nothing else is taken for a script.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test states what it expects, in its helpers too")]

use proptest::prelude::*;
use std::ffi::{CStr, CString};
use toolyard_launcher::script::{Reader, Step};

type Read<'a> = Step<&'a CStr, &'a [u8]>;

/// The fields of a step, of which each uses its own.
#[derive(Clone, Debug)]
struct Fields {
    code: u8,
    a: u32,
    b: u32,
    longs: [u64; 3],
    texts: [CString; 3],
    block: Vec<u8>,
}

prop_compose! {
    fn fields()(
        code in 1..=21u8,
        (a, b, longs) in any::<(u32, u32, [u64; 3])>(),
        texts in prop::array::uniform3(prop::collection::vec(1u8.., 0..40)),
        block in prop::collection::vec(any::<u8>(), 0..40),
    ) -> Fields {
        Fields { code, a, b, longs, texts: texts.map(|text| CString::new(text).unwrap()), block }
    }
}

impl Fields {
    fn step(&self) -> Read<'_> {
        let Fields { code, a, b, longs: [x, y, z], ref texts, ref block } = *self;
        let [path, other, third] = texts.each_ref().map(CString::as_c_str);
        match code {
            1 => Step::Root {},
            2 => Step::Dir { mode: a, path },
            3 => Step::Symlink { target: other, path },
            4 => Step::File { path, content: block },
            5 => Step::Bind { attributes: a, device: x, inode: y, source: other, path },
            6 => Step::Mount { kind: third, flags: a, options: other, path },
            7 => Step::Pivot {},
            8 => Step::Chdir { path },
            9 => Step::Limit { resource: a, soft: x, hard: y, own: b },
            10 => Step::Listen { port: a },
            11 => Step::DropPrivileges {},
            12 => Step::Ruleset { size: a, fs: x, net: y, scoped: z },
            13 => Step::Rule { access: x, follow: a, device: y, inode: z, path },
            14 => Step::Restrict {},
            15 => Step::Filter { instructions: block },
            16 => Step::Join { kind: a, descriptor: b },
            17 => Step::SendView {},
            18 => Step::EnterView { descriptor: a },
            19 => Step::Move { source: other, path },
            20 => Step::Seal { path },
            21 => Step::JoinCgroup { descriptor: a },
            _ => panic!("there is no step {code}"),
        }
    }
}

fn write(step: Read<'_>, into: &mut Vec<u8>) {
    assert!(step.encode(|part| into.extend_from_slice(part)));
}

proptest! {
    #[test]
    fn a_script_is_read_as_it_was_written(all in prop::collection::vec(fields(), 0..20)) {
        let mut bytes = Vec::new();
        for fields in &all {
            let at = bytes.len();
            write(fields.step(), &mut bytes);
            prop_assert_eq!(bytes[at], fields.code);
        }
        let mut reader = Reader { left: &bytes };
        for fields in &all {
            prop_assert_eq!(Step::decode(&mut reader), Some(fields.step()));
        }
        prop_assert!(reader.left.is_empty());
    }

    #[test]
    fn the_beginning_of_a_step_is_no_step(fields in fields(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        write(fields.step(), &mut bytes);
        let beginning = &bytes[..cut.index(bytes.len())];
        prop_assert_eq!(Step::decode(&mut Reader { left: beginning }), None);
    }

    #[test]
    fn what_can_be_read_has_one_form(bytes in prop::collection::vec(0..24u8, 0..60)) {
        let mut reader = Reader { left: &bytes };
        let mut written = Vec::new();
        while let Some(step) = Step::decode(&mut reader) {
            write(step, &mut written);
            prop_assert!(!step.to_string().is_empty());
        }
        prop_assert!(bytes.starts_with(&written));
    }

    /// Otherwise the rest of the text would be read as further steps.
    #[test]
    fn a_text_with_nul_is_refused(bytes in prop::collection::vec(any::<u8>(), 1..40), at in any::<prop::sample::Index>()) {
        let mut path = bytes;
        let at = at.index(path.len());
        path[at] = 0;
        let step: Step<&[u8], &[u8]> = Step::Seal { path: &path };
        let valid = step.encode(|_| {});
        prop_assert!(!valid);
    }
}

#[test]
fn a_step_is_described_in_words() {
    let step: Read<'_> = Step::Mount { kind: c"proc", flags: 0, options: c"", path: c"proc" };
    assert_eq!(step.to_string(), "mount a proc at /proc");
    let step: Read<'_> = Step::Seal { path: c"a\xff" };
    assert_eq!(step.to_string(), "make /a\u{fffd} read-only");
}
