//! Compiles the launcher (see `program/main.rs`) for the same target as the crate that embeds it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=program");
    println!("cargo::rerun-if-changed=src");
    let target = variable("TARGET")?;
    let (arch, os) = (variable("CARGO_CFG_TARGET_ARCH")?, variable("CARGO_CFG_TARGET_OS")?);
    if os != "linux" || !matches!(arch.as_str(), "x86_64" | "aarch64") {
        return Err(format!("the launcher runs on Linux, x86_64 or aarch64; the target is {target}"));
    }
    let out = PathBuf::from(variable("OUT_DIR")?).join("launcher");
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.arg("program/main.rs").arg("-o").arg(&out).args(["--target", &target]);
    rustc.args(["--crate-name", "toolyard_launcher", "--crate-type", "bin", "--edition", "2024"]);
    for option in [
        "opt-level=s",
        "panic=abort",
        "relocation-model=static",
        "strip=symbols",
        "codegen-units=1",
        "lto=fat",
    ] {
        rustc.args(["-C", option]);
    }
    // Few and small segments: each page costs a page fault on every call.
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none,--no-eh-frame-hdr,-z,noseparate-code,-z,norelro,-z,noexecstack",
    ] {
        rustc.arg("-C").arg(format!("link-arg={argument}"));
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    let status = rustc.status().map_err(|e| format!("cannot start {:?}: {e}", rustc.get_program()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the launcher does not compile for {target} ({status}); see the compiler's output above"))
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("cargo did not set {name}: {e}"))
}
