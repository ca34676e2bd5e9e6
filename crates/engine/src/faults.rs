//! Named points at which a test may let a store crash or fail; in the daemon nothing ever happens there.

/// Decides what happens at a point. Points are named `store.step`: `blob.placed`.
pub trait Faults: Send + Sync {
    fn at(&self, point: &'static str) -> Fault;
}

/// What happens at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The process ends here and now, as by kill -9: no destructor runs, nothing is cleaned up.
    Crash,
    /// The step reports an error of the disk.
    Fail,
}

/// Nothing happens, ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn at(&self, _: &'static str) -> Fault {
        Fault::None
    }
}

impl dyn Faults {
    /// Lets happen what is to happen at this point.
    pub fn pass(&self, point: &'static str) -> std::io::Result<()> {
        match self.at(point) {
            Fault::None => Ok(()),
            Fault::Crash => std::process::abort(),
            Fault::Fail => Err(std::io::Error::other(format!("failed on purpose at {point}"))),
        }
    }
}
