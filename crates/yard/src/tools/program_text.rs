//! Finds templates where an interpreter takes program text: `sh -c "echo {{ input.x }}"` would run what callers send.
//!
//! The list of interpreters cannot be complete. It catches what is written by mistake; the sandbox limits the rest.

/// A template that would be run as code: which argument, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct TemplatedCode {
    pub argument: usize,
    pub message: String,
}

/// What is needed to find the program text among the arguments of an interpreter.
struct Interpreter {
    names: &'static [&'static str],
    /// Letters of flags that say what runs, after which other arguments are data.
    code: &'static str,
    /// Letters of flags whose value is the next argument; something still has to say what runs.
    value: &'static str,
    /// Letters after which the rest of the argument is a value.
    attached: &'static str,
    long_code: &'static [&'static str],
    long_value: &'static [&'static str],
    /// First words after which the script comes.
    subcommands: &'static [&'static str],
}

const PLAIN: Interpreter = Interpreter {
    names: &[],
    code: "",
    value: "",
    attached: "",
    long_code: &[],
    long_value: &[],
    subcommands: &[],
};

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh"],
        code: "c",
        value: "oO",
        long_code: &["--command"],
        long_value: &["--rcfile", "--init-file"],
        ..PLAIN
    },
    Interpreter {
        names: &["fish"],
        code: "c",
        value: "CdDpf",
        long_code: &["--command"],
        long_value: &["--init-command", "--debug", "--features", "--profile"],
        ..PLAIN
    },
    Interpreter {
        names: &["python", "pypy"],
        code: "cm",
        value: "WX",
        long_value: &["--check-hash-based-pycs"],
        ..PLAIN
    },
    Interpreter {
        names: &["node", "nodejs", "deno", "bun", "tsx", "ts-node"],
        code: "ep",
        value: "rC",
        long_code: &["--eval", "--print"],
        long_value: &[
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "--conditions",
            "--preload",
        ],
        subcommands: &["run", "eval", "exec", "x", "test", "serve", "repl", "watch"],
        ..PLAIN
    },
    Interpreter { names: &["perl"], code: "eE", value: "I", attached: "MmiDC", ..PLAIN },
    Interpreter {
        names: &["ruby", "jruby"],
        code: "e",
        value: "IrCE",
        attached: "iFKTWx",
        long_value: &["--encoding", "--external-encoding", "--internal-encoding"],
        ..PLAIN
    },
    Interpreter {
        names: &["php"],
        code: "rBREfF",
        value: "dczSt",
        long_code: &[
            "--run",
            "--file",
            "--process-begin",
            "--process-code",
            "--process-end",
            "--process-file",
        ],
        long_value: &["--define", "--php-ini", "--server", "--docroot", "--zend-extension"],
        ..PLAIN
    },
    // A script after `-e` is run too.
    Interpreter { names: &["lua", "luajit"], value: "elj", ..PLAIN },
    Interpreter {
        names: &["awk", "gawk", "mawk", "nawk"],
        code: "feE",
        value: "vFilW",
        long_code: &["--file", "--source", "--exec"],
        long_value: &["--assign", "--field-separator", "--include", "--load"],
        ..PLAIN
    },
    Interpreter {
        names: &["sed", "gsed"],
        code: "ef",
        value: "l",
        attached: "i",
        long_code: &["--expression", "--file"],
        long_value: &["--line-length"],
        ..PLAIN
    },
    Interpreter { names: &["tclsh", "wish", "expect"], code: "cf", ..PLAIN },
    Interpreter { names: &["osascript"], code: "e", value: "l", ..PLAIN },
    Interpreter { names: &["pwsh", "powershell"], code: "cCfFeE", ..PLAIN },
];

/// Programs that start the program named in their arguments.
const STARTERS: &[&str] = &[
    "env", "timeout", "nice", "nohup", "setsid", "stdbuf", "sudo", "doas", "time", "xargs", "ionice", "chrt",
    "taskset", "unshare", "chroot", "flock", "busybox", "command", "exec", "uv", "uvx", "npx", "strace",
    "script",
];

/// The first argument in which a template would be code.
pub fn templated_code(program: &str, arguments: &[&str]) -> Option<TemplatedCode> {
    if let Some(known) = interpreter(program) {
        return known.templated(program, arguments, 0);
    }
    let (at, known) = arguments.iter().enumerate().find_map(|(at, name)| Some((at, interpreter(name)?)))?;
    if STARTERS.contains(&file_name(program)) {
        return known.templated(arguments[at], &arguments[at + 1..], at + 1);
    }
    // The word may be data; a flag that takes code after it makes that unlikely.
    let after = arguments[at + 1..].windows(2).enumerate();
    let mut code = after.filter(|(_, pair)| known.kind(pair[0]) == FlagKind::Code && has_template(pair[1]));
    code.next().map(|(offset, pair)| after_flag(at + 1 + offset + 1, pair[0]))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlagKind {
    Code,
    Value,
    Plain,
}

impl Interpreter {
    fn templated(&self, program: &str, arguments: &[&str], offset: usize) -> Option<TemplatedCode> {
        let (mut at, mut is_given) = (0, false);
        while let Some(argument) = arguments.get(at) {
            let next = arguments.get(at + 1);
            if !argument.starts_with('-') || *argument == "-" {
                if self.subcommands.contains(argument) && !is_given {
                    at += 1;
                    continue;
                }
                break;
            }
            if has_template(argument) {
                let flag = argument.split(['{', '=']).next().unwrap_or_default();
                let message = format!("a template in the option '{flag}' of '{program}' {DANGER}");
                return Some(TemplatedCode { argument: offset + at, message });
            }
            at += 1;
            if *argument == "--" {
                break;
            }
            let kind = self.kind(argument);
            if kind != FlagKind::Plain
                && let Some(next) = next.filter(|next| kind == FlagKind::Value || !next.starts_with('-'))
            {
                if has_template(next) && !self.takes_data(argument) {
                    return Some(after_flag(offset + at, argument));
                }
                is_given |= kind == FlagKind::Code;
                at += 1;
            }
        }
        let script = arguments.get(at).filter(|script| !is_given && has_template(script));
        script.map(|_| TemplatedCode {
            argument: offset + at,
            message: format!("a template as the script or the program text of '{program}' {DANGER}"),
        })
    }

    fn kind(&self, flag: &str) -> FlagKind {
        if flag.starts_with("--") {
            return match flag {
                _ if self.long_code.contains(&flag) => FlagKind::Code,
                _ if self.long_value.contains(&flag) => FlagKind::Value,
                _ => FlagKind::Plain,
            };
        }
        // Short flags can be combined: `sh -ec`, `perl -lne`.
        for (at, letter) in flag.char_indices().skip(1) {
            if self.code.contains(letter) {
                return FlagKind::Code;
            }
            let is_last = at + letter.len_utf8() == flag.len();
            if self.value.contains(letter) {
                return if is_last { FlagKind::Value } else { FlagKind::Plain };
            }
            if self.attached.contains(letter) {
                return FlagKind::Plain;
            }
        }
        FlagKind::Plain
    }

    /// Variables and separators of awk are data.
    fn takes_data(&self, flag: &str) -> bool {
        self.names.contains(&"awk") && matches!(flag, "-v" | "-F" | "--assign" | "--field-separator")
    }
}

const DANGER: &str = "would let callers run code of their own";

fn after_flag(argument: usize, flag: &str) -> TemplatedCode {
    TemplatedCode { argument, message: format!("a template inside the program text after '{flag}' {DANGER}") }
}

fn has_template(text: &str) -> bool {
    ["{{", "{%"].iter().any(|mark| text.contains(mark))
}

fn interpreter(program: &str) -> Option<&'static Interpreter> {
    let name = file_name(program);
    // `python3.12`, `php8.2`, `perl5.36.0`
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|known| known.names.contains(&plain))
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(argv: &[&str]) -> Option<(usize, String)> {
        templated_code(argv[0], &argv[1..]).map(|code| (code.argument, code.message))
    }

    #[test]
    fn a_template_is_not_program_text() {
        let x = "{{ input.x }}";
        for (argv, at, part) in [
            (&["sh", "-c", x][..], 1, "after '-c'"),
            (&["sh", "-ec", x], 1, "after '-ec'"),
            (&["sh", "-ce", x], 1, "after '-ce'"),
            (&["bash", "-lc", x], 1, "after '-lc'"),
            (&["sh", "-c", "--", x], 2, "as the script or the program text of 'sh'"),
            (&["sh", "-c", "-e", x], 2, "as the script"),
            (&["bash", "-o", "pipefail", "-c", x], 3, "after '-c'"),
            (&["sh", x], 0, "as the script"),
            (&["sh", "-x", "dir/{{ input.x }}.sh"], 1, "as the script"),
            (&["python3.12", "-Ic", x], 1, "after '-Ic'"),
            (&["/usr/bin/python3", "-W", "ignore", x], 2, "as the script"),
            (&["python3", "-m", x], 1, "after '-m'"),
            (&["node", "-pe", x], 1, "after '-pe'"),
            (&["node", "--eval={{ input.x }}"], 0, "in the option '--eval' of 'node'"),
            (&["node", "-r", "./lib.js", x], 2, "as the script"),
            (&["deno", "eval", x], 1, "as the script"),
            (&["deno", "run", "--allow-net={{ input.x }}", "a.ts"], 1, "in the option '--allow-net'"),
            (&["bun", "run", x], 1, "as the script"),
            (&["perl", "-le", x], 1, "after '-le'"),
            (&["perl", "-e", "1", "-e", x], 3, "after '-e'"),
            (&["ruby", "-eputs {{ input.x }}"], 0, "in the option '-eputs '"),
            (&["ruby", "-r", "json", x], 2, "as the script"),
            (&["php", "-r", x], 1, "after '-r'"),
            (&["php8.2", "-d", "a=b", x], 2, "as the script"),
            (&["lua5.4", "-e", "x=1", x], 2, "as the script"),
            (&["awk", "{print {{ input.x }}}"], 0, "as the script"),
            (&["gawk", "-v", "a=b", x], 2, "as the script"),
            (&["sed", "s/a/{{ input.x }}/"], 0, "as the script"),
            (&["sed", "-n", "-e", x], 2, "after '-e'"),
            (&["tclsh", x], 0, "as the script"),
            (&["pwsh", "-NoProfile", "-Command", x], 2, "after '-Command'"),
            (&["env", "A=b", "sh", "-ec", x], 3, "after '-ec'"),
            (&["timeout", "5", "python3", x], 2, "as the script"),
            (&["busybox", "sh", x], 1, "as the script"),
            (&["ssh", "host", "bash", "-lc", x], 3, "after '-lc'"),
        ] {
            let (argument, message) = found(argv).unwrap_or_else(|| panic!("{argv:?}"));
            assert_eq!(argument, at, "{argv:?}: {message}");
            assert!(message.contains(part) && message.ends_with(DANGER), "{argv:?}: {message}");
        }
    }

    #[test]
    fn a_template_is_data_after_the_program_text() {
        let x = "{{ input.x }}";
        for argv in [
            &["sh", "-c", "echo \"$1\"", "sh", x][..],
            &["sh", "-ec", "echo \"$1\"", "sh", x],
            &["bash", "-e", "tools/a.sh", x],
            &["python3", "script.py", x],
            &["python3", "-u", "script.py", "--name={{ input.x }}"],
            &["python3", "-m", "tools.a", x],
            &["node", "script.js", "-e", x],
            &["deno", "run", "--allow-net", "a.ts", x],
            &["perl", "-lne", "print", x],
            &["perl", "-Mstrict", "a.pl", x],
            &["ruby", "-e", "puts ARGV", x],
            &["php", "a.php", x],
            &["awk", "-v", "x={{ input.x }}", "{print x}", x],
            &["awk", "-f", "a.awk", x],
            &["sed", "-n", "1p", x],
            &["timeout", x, "sh", "a.sh"],
            &["grep", "sh", x],
            &["grep", "-e", x],
            &["echo", x],
        ] {
            assert_eq!(found(argv), None, "{argv:?}");
        }
    }
}
