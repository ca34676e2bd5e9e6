//! Memory for the output of all children together. A large output is read when there is space for it, and counts until its
//! last copy is dropped: a result that waits for its client to read counts here.

use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Output of at most this size is read without a reservation.
pub const SMALL: usize = 16 << 10;

const UNIT: usize = 1 << 10;

/// Clones share the memory.
#[derive(Clone)]
pub struct OutputMemory {
    /// One permit per kibibyte, granted in the order of asking.
    free: Arc<Semaphore>,
    total: usize,
}

impl OutputMemory {
    pub fn new(bytes: usize) -> OutputMemory {
        let total = (bytes / UNIT).clamp(1, u32::MAX as usize);
        OutputMemory { free: Arc::new(Semaphore::new(total)), total }
    }

    /// Waits until `bytes` are free. An output that may be larger than all of the memory gets all of it.
    pub fn reserve(&self, bytes: usize) -> impl Future<Output = Reservation> + Send + 'static {
        let units = bytes.div_ceil(UNIT).min(self.total) as u32;
        let free = self.free.clone();
        // It is never closed.
        async move { Reservation(free.acquire_many_owned(units).await.ok()) }
    }
}

/// Part of the memory, given back when it is dropped.
pub struct Reservation(Option<OwnedSemaphorePermit>);

impl Reservation {
    /// The output, which counts until its last copy is dropped. What it does not need is given back.
    pub fn hold(mut self, output: Vec<u8>) -> Bytes {
        if let Some(permit) = &mut self.0 {
            let unused = permit.num_permits().saturating_sub(output.len().div_ceil(UNIT));
            drop(permit.split(unused));
        }
        Bytes::from_owner(HeldOutput { output, _reservation: self })
    }
}

struct HeldOutput {
    output: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for HeldOutput {
    fn as_ref(&self) -> &[u8] {
        &self.output
    }
}

/// The reservation of an output that is being read.
pub struct OutputReservation {
    memory: OutputMemory,
    largest: usize,
    waiting: Option<Pin<Box<dyn Future<Output = Reservation> + Send + Sync>>>,
    granted: Option<Reservation>,
}

impl OutputReservation {
    /// For an output of at most `largest` bytes.
    pub fn new(memory: &OutputMemory, largest: usize) -> OutputReservation {
        OutputReservation { memory: memory.clone(), largest, waiting: None, granted: None }
    }

    /// How many more bytes may be read when there are `held` already. Waits if only a large output has more.
    /// Cancel-safe: the place in the queue is kept.
    pub async fn room(&mut self, held: usize) -> usize {
        if self.granted.is_none() {
            if held < SMALL {
                return SMALL - held;
            }
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(self.memory.reserve(self.largest)));
            self.granted = Some(waiting.await);
            self.waiting = None;
        }
        usize::MAX
    }

    /// Whether the output waits for memory.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The complete output.
    pub fn hold(&mut self, output: Vec<u8>) -> Bytes {
        match self.granted.take() {
            Some(granted) => granted.hold(output),
            None => output.into(),
        }
    }
}
