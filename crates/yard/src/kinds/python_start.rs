//! The command line of Python, changed so that folders of the yard come last where modules are looked for.

use toolyard_formats::doc::Position;

/// Takes the place of the text that follows `-c`, and gets the original arguments after it.
const START: &str = include_str!("python_start.py");

/// Whether the program is Python, by its file name: `python`, `python3.12`, `pypy3`.
pub fn is_python(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'), "python" | "pypy")
}

/// Puts [`START`] before the script, the module or the text that the arguments of Python name. Arguments that name
/// none of them, such as `--version`, stay as they are.
pub fn with_yard_last(mut arguments: Vec<(&str, Position)>) -> Vec<(&str, Position)> {
    let Some((at, attached)) = what_runs(&arguments) else { return arguments };
    let (argument, position) = arguments[at];
    let mut inserted = vec![("-c", position), (START, position)];
    // `-Bc TEXT` and `-mMODULE`: the flags before the letter stay, and what follows it is an argument of its own.
    if let Some(letter) = attached {
        let (flags, rest) = argument.split_at(letter);
        if flags.len() > 1 {
            inserted.insert(0, (flags, position));
        }
        inserted.push((if rest.starts_with('c') { "-c" } else { "-m" }, position));
        if rest.len() > 1 {
            inserted.push((&rest[1..], position));
        }
        arguments.remove(at);
    }
    arguments.splice(at..at, inserted);
    arguments
}

/// The argument that names what runs, and where in it the letter `c` or `m` is, if it is a flag.
fn what_runs(arguments: &[(&str, Position)]) -> Option<(usize, Option<usize>)> {
    let mut at = 0;
    while let Some((argument, _)) = arguments.get(at) {
        if !argument.starts_with('-') {
            return Some((at, None));
        }
        // `-` is the program on stdin; long flags take over what happens.
        if *argument == "-" || (argument.starts_with("--") && *argument != "--check-hash-based-pycs") {
            return None;
        }
        let long = argument.starts_with("--");
        let letter = argument.find(|c| long || matches!(c, 'c' | 'm' | 'W' | 'X'));
        match letter {
            Some(letter) if !long && matches!(argument.as_bytes()[letter], b'c' | b'm') => {
                return Some((at, Some(letter)));
            }
            // The value of `-W`, `-X` and the long flag is the next argument, unless it is attached.
            Some(letter) => at += if long || letter + 1 == argument.len() { 2 } else { 1 },
            None => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_comes_before_whatever_names_the_program() {
        const P: Position = Position { line: 1, column: 1 };
        for (given, expected) in [
            (&["a.py", "-c", "x"][..], &["-c", START, "a.py", "-c", "x"][..]),
            (&["-B", "-c", "code", "x"], &["-B", "-c", START, "-c", "code", "x"]),
            (&["-Ic", "code"], &["-I", "-c", START, "-c", "code"]),
            (&["-ccode"], &["-c", START, "-c", "code"]),
            (&["-um", "pkg.mod", "x"], &["-u", "-c", START, "-m", "pkg.mod", "x"]),
            (&["-mpkg"], &["-c", START, "-m", "pkg"]),
            (&["-X", "dev", "-Wignore", "a.py"], &["-X", "dev", "-Wignore", "-c", START, "a.py"]),
            (
                &["--check-hash-based-pycs", "never", "a.py"],
                &["--check-hash-based-pycs", "never", "-c", START, "a.py"],
            ),
            (&["--version"], &["--version"]),
            (&["-"], &["-"]),
            (&[], &[]),
        ] {
            let given = given.iter().map(|text| (*text, P)).collect();
            let texts: Vec<&str> = with_yard_last(given).into_iter().map(|(text, _)| text).collect();
            assert_eq!(texts, expected);
        }
        for (program, expected) in [
            ("python", true),
            ("python3", true),
            ("/usr/bin/python3.12", true),
            ("pypy3", true),
            ("ipython", false),
            ("python-config", false),
        ] {
            assert_eq!(is_python(program), expected, "{program}");
        }
    }
}
