//! `fuzz [CASES] [TARGET]`: fuzzes each target, or one; prints a line per target; exits with 1 on a finding.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people, not a library")]

use std::path::Path;
use std::process::ExitCode;
use toolyard_fuzz::{Limits, fuzz, targets};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Ok(cases) = words.next().unwrap_or_else(|| "1000000".to_owned()).parse() else {
        eprintln!("usage: fuzz [CASES] [TARGET]");
        return ExitCode::from(2);
    };
    let wanted = words.next();
    match run(cases, wanted.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(cases: u64, wanted: Option<&str>) -> Result<(), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("toolyard-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut all = targets::all(&folder)?;
    if let Some(name) = wanted {
        let names: Vec<&str> = all.iter().map(|target| target.name).collect();
        let unknown = format!("unknown target '{name}'; expected one of {}", names.join(", "));
        all.retain(|target| target.name == name);
        if all.is_empty() {
            return Err(unknown);
        }
    }
    for target in &all {
        let corpus = here.join("corpus").join(target.name);
        let findings = std::env::temp_dir().join("toolyard-findings");
        let report = fuzz(target, &corpus, &findings, Limits::new(cases))?;
        println!(
            "{}: {} cases, {} kinds of answer, slowest {:.1?}, most memory {} KiB, growth {} KiB, {:.0?}",
            target.name,
            report.cases,
            report.answers,
            report.slowest,
            report.most / 1024,
            report.growth / 1024,
            report.took
        );
    }
    // It contains the audit log of the calls.
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}
