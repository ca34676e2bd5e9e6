//! Assembles a BPF program for seccomp.

use std::collections::BTreeMap;
use std::mem::offset_of;

#[derive(Clone, Copy)]
pub enum Action {
    Allow,
    Errno(i32),
    Kill,
    Report,
}

pub const LOAD: u16 = 0x20;
pub const AND: u16 = 0x54;
pub const JUMP_EQUAL: u16 = 0x15;
pub const JUMP_AT_LEAST: u16 = 0x35;
pub const JUMP_ANY: u16 = 0x45;
pub const JUMP: u16 = 0x05;
pub const RETURN: u16 = 0x06;

#[derive(Default)]
pub struct BpfProgram {
    pub bytes: Vec<u8>,
}

impl BpfProgram {
    fn emit(&mut self, code: u16, if_true: u8, if_false: u8, value: u32) {
        self.bytes.extend(code.to_ne_bytes());
        self.bytes.extend([if_true, if_false]);
        self.bytes.extend(value.to_ne_bytes());
    }

    fn length(&self) -> usize {
        self.bytes.len() / 8
    }

    pub fn load_arch(&mut self) {
        self.load(offset_of!(libc::seccomp_data, arch));
    }

    pub fn load_number(&mut self) {
        self.load(offset_of!(libc::seccomp_data, nr));
    }

    /// The low half; the kernel ignores the high half of the arguments that are checked by it.
    pub fn load_argument(&mut self, index: usize) {
        self.load(offset_of!(libc::seccomp_data, args) + index * 8);
    }

    pub fn load_high_half(&mut self, index: usize) {
        self.load(offset_of!(libc::seccomp_data, args) + index * 8 + 4);
    }

    fn load(&mut self, offset: usize) {
        self.emit(LOAD, 0, 0, offset as u32);
    }

    pub fn mask(&mut self, mask: u32) {
        self.emit(AND, 0, 0, mask);
    }

    pub fn return_action(&mut self, action: Action) {
        let value = match action {
            Action::Allow => libc::SECCOMP_RET_ALLOW,
            Action::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
            Action::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Action::Report => libc::SECCOMP_RET_USER_NOTIF,
        };
        self.emit(RETURN, 0, 0, value);
    }

    pub fn if_equal(&mut self, value: u32, action: Action) {
        self.emit(JUMP_EQUAL, 0, 1, value);
        self.return_action(action);
    }

    pub fn unless_equal(&mut self, value: u32, action: Action) {
        self.emit(JUMP_EQUAL, 1, 0, value);
        self.return_action(action);
    }

    pub fn if_at_least(&mut self, value: u32, action: Action) {
        self.emit(JUMP_AT_LEAST, 0, 1, value);
        self.return_action(action);
    }

    pub fn if_any(&mut self, bits: u32, action: Action) {
        self.emit(JUMP_ANY, 0, 1, bits);
        self.return_action(action);
    }

    pub fn unless_any(&mut self, bits: u32, action: Action) {
        self.emit(JUMP_ANY, 1, 0, bits);
        self.return_action(action);
    }

    pub fn if_equal_skip(&mut self, value: u32, instructions: u8) {
        self.emit(JUMP_EQUAL, instructions, 0, value);
    }

    /// Applies `rules`, which must return, if the value is equal.
    pub fn if_equal_then(&mut self, value: u32, rules: impl FnOnce(&mut BpfProgram)) {
        let mut inner = BpfProgram::default();
        rules(&mut inner);
        self.skip_unless_equal(value, &inner);
    }

    fn skip_unless_equal(&mut self, value: u32, inner: &BpfProgram) {
        match u8::try_from(inner.length()) {
            Ok(length) => self.emit(JUMP_EQUAL, 0, length, value),
            // The offset of a condition has eight bits, that of a plain jump 32.
            Err(_) => {
                self.emit(JUMP_EQUAL, 1, 0, value);
                self.emit(JUMP, 0, 0, inner.length() as u32);
            }
        }
        self.bytes.extend(&inner.bytes);
    }

    /// Applies the rules of the loaded value. A binary search, because the kernel evaluates the filter for every
    /// system call number when it is installed, which happens for every tool.
    pub fn dispatch(&mut self, rules: &[(u32, BpfProgram)]) {
        if rules.len() <= 3 {
            rules.iter().for_each(|(value, inner)| self.skip_unless_equal(*value, inner));
            return;
        }
        let (low, high) = rules.split_at(rules.len() / 2);
        let (mut below, mut above) = (BpfProgram::default(), BpfProgram::default());
        below.dispatch(low);
        above.dispatch(high);
        // The jump at the end of `below` is skipped too.
        let skipped = below.length() + 1;
        match u8::try_from(skipped) {
            Ok(skipped) => self.emit(JUMP_AT_LEAST, skipped, 0, high[0].0),
            Err(_) => {
                self.emit(JUMP_AT_LEAST, 0, 1, high[0].0);
                self.emit(JUMP, 0, 0, skipped as u32);
            }
        }
        self.bytes.extend(below.bytes);
        self.emit(JUMP, 0, 0, above.length() as u32);
        self.bytes.extend(above.bytes);
    }
}

/// The rules of each system call; a call without rules is allowed.
#[derive(Default)]
pub struct SyscallRules(BTreeMap<u32, BpfProgram>);

impl SyscallRules {
    /// The call returns this whatever its arguments.
    pub fn always(&mut self, call: i64, action: Action) {
        let mut code = BpfProgram::default();
        code.return_action(action);
        self.0.insert(call as u32, code);
    }

    /// Replaces the rules of the call, which is allowed unless they return.
    pub fn arguments(&mut self, call: i64, rules: impl FnOnce(&mut BpfProgram)) {
        let mut code = BpfProgram::default();
        rules(&mut code);
        code.return_action(Action::Allow);
        self.0.insert(call as u32, code);
    }

    pub fn sorted(self) -> Vec<(u32, BpfProgram)> {
        self.0.into_iter().collect()
    }
}
