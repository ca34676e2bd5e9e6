//! A clock for expiry: within one boot of the machine it does not jump, even when the wall clock is set.

use crate::clock::Clock;
use std::path::Path;
use std::sync::Arc;
use toolyard_protocol::Timestamp;

/// The wall-clock time when the yard was first used in this boot, plus the time elapsed since then.
pub struct SteadyClock {
    wall_ms: u64,
    boot_ms: u64,
}

impl SteadyClock {
    /// The starting point is stored in the state folder, so that all processes of one boot agree. If it
    /// cannot be stored, each process has its own.
    pub fn open(state_dir: &Path, wall: &Arc<dyn Clock>) -> SteadyClock {
        let path = state_dir.join("steady-clock");
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let stored = std::fs::read_to_string(&path).ok().and_then(|text| parse(&text, boot.trim()));
        stored.unwrap_or_else(|| {
            let clock = SteadyClock { wall_ms: wall.now().unix_ms(), boot_ms: since_boot_ms() };
            let text = format!("{} {} {}\n", boot.trim(), clock.wall_ms, clock.boot_ms);
            let temporary = state_dir.join(format!(".steady-clock-{}", std::process::id()));
            if std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, &path)).is_err() {
                let _ = std::fs::remove_file(&temporary);
            }
            clock
        })
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.wall_ms + since_boot_ms().saturating_sub(self.boot_ms))
    }
}

fn parse(text: &str, boot: &str) -> Option<SteadyClock> {
    let mut words = text.split_whitespace();
    if boot.is_empty() || words.next()? != boot {
        return None;
    }
    let (wall_ms, boot_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (boot_ms <= since_boot_ms()).then_some(SteadyClock { wall_ms, boot_ms })
}

/// Includes the time the machine slept.
fn since_boot_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_boot_is_the_kernels() {
        let uptime_ms = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let (seconds, hundredths) = text.split_once(' ').unwrap().0.split_once('.').unwrap();
            seconds.parse::<u64>().unwrap() * 1000 + hundredths.parse::<u64>().unwrap() * 10
        };
        for _ in 0..5 {
            let (before, now, after) = (uptime_ms(), since_boot_ms(), uptime_ms());
            // The kernel cuts off what is below 10 ms.
            assert!((before..after + 10).contains(&now), "{now} ms, and {before} to {after} for the kernel");
            std::thread::sleep(std::time::Duration::from_millis(7));
        }
    }

    #[test]
    fn the_clock_runs_on_from_its_starting_point() {
        let clock = SteadyClock { wall_ms: 5_000_000, boot_ms: since_boot_ms() - 3000 };
        assert!((5_003_000..5_004_000).contains(&clock.now().unix_ms()));
    }

    #[test]
    fn a_starting_point_of_this_boot_is_in_its_past() {
        let now = since_boot_ms();
        for (text, boot, is_valid) in [
            (format!("b 7 {now}"), "b", true),
            (format!("b 7 {}", now + 1_000_000), "b", false),
            (format!("a 7 {now}"), "b", false),
            (format!("b 7 {now}"), "", false),
            ("b 7".to_owned(), "b", false),
        ] {
            assert_eq!(parse(&text, boot).map(|clock| clock.wall_ms), is_valid.then_some(7), "{text}");
        }
    }
}
