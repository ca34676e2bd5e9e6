//! Messages that wait for a client: bounded in number and bytes. Progress and log lines are dropped, the oldest first;
//! questions and answers never are.

use bytes::Bytes;
use std::collections::VecDeque;

/// What a message is, which decides whether it may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Class {
    /// Progress or a log line: the client can do without it.
    Notification,
    /// A question, or a change that the client subscribed to.
    Required,
    /// The response to a request of the client.
    Answer,
}

/// One message may be larger.
#[derive(Clone, Copy, Debug)]
pub(in crate::mcp) struct Bounds {
    pub messages: usize,
    pub bytes: usize,
}

#[derive(Clone, Debug)]
pub(in crate::mcp) struct Entry {
    /// Counts the messages of this queue, dropped ones too.
    pub number: u64,
    pub class: Class,
    pub message: Bytes,
}

#[derive(Debug, Default)]
pub(in crate::mcp) struct Messages {
    entries: VecDeque<Entry>,
    bytes: usize,
    last: u64,
    dropped: u64,
}

impl Messages {
    /// Adds a message. Notifications are dropped while there are too many messages, and this one is if the others are
    /// all questions and answers.
    pub fn push(&mut self, class: Class, message: impl Into<Bytes>, bounds: Bounds) {
        let message = message.into();
        self.last += 1;
        while !self.has_room(message.len(), bounds) {
            if self.drop_oldest_notification() {
                continue;
            }
            if class == Class::Notification {
                self.dropped += 1;
                return;
            }
            break;
        }
        self.bytes += message.len();
        self.entries.push_back(Entry { number: self.last, class, message });
    }

    /// Adds an answer that is sent before all others.
    pub fn push_first(&mut self, message: impl Into<Bytes>) {
        let message = message.into();
        self.last += 1;
        self.bytes += message.len();
        self.entries.push_front(Entry { number: self.last, class: Class::Answer, message });
    }

    /// Removes and returns the first message.
    pub fn pop(&mut self) -> Option<Bytes> {
        let first = self.entries.pop_front()?;
        self.bytes -= first.message.len();
        if self.entries.is_empty() {
            // Frees the memory of a burst.
            self.entries = VecDeque::new();
        }
        Some(first.message)
    }

    /// The first message after the number, which stays.
    pub fn after(&self, number: u64) -> Option<&Entry> {
        self.entries.get(self.entries.partition_point(|entry| entry.number <= number))
    }

    pub fn drop_notifications(&mut self) {
        while self.drop_oldest_notification() {}
    }

    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
        self.bytes = 0;
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the newest message.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// How many notifications were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn has_room(&self, more: usize, bounds: Bounds) -> bool {
        self.entries.is_empty() || (self.entries.len() < bounds.messages && self.bytes + more <= bounds.bytes)
    }

    fn drop_oldest_notification(&mut self) -> bool {
        let oldest = self.entries.iter().position(|entry| entry.class == Class::Notification);
        let Some(dropped) = oldest.and_then(|index| self.entries.remove(index)) else { return false };
        self.bytes -= dropped.message.len();
        self.dropped += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { messages: 4, bytes: 100 };

    fn texts(messages: &Messages) -> Vec<&[u8]> {
        messages.iter().map(|entry| entry.message.as_ref()).collect()
    }

    #[test]
    fn only_notifications_are_dropped_the_oldest_first() {
        let mut messages = Messages::default();
        messages.push(Class::Required, "question", BOUNDS);
        for number in 0..300 {
            messages.push(Class::Notification, format!("n{number}"), BOUNDS);
        }
        messages.push(Class::Answer, "answer", BOUNDS);
        assert_eq!(texts(&messages), [&b"question"[..], b"n298", b"n299", b"answer"]);
        assert_eq!(messages.dropped(), 298);
        for _ in 0..9 {
            messages.push(Class::Answer, "more", BOUNDS);
        }
        messages.push(Class::Notification, "late", BOUNDS);
        assert_eq!((messages.len(), messages.dropped()), (11, 301), "answers are never dropped");
        messages.push_first("urgent");
        assert_eq!(messages.pop().unwrap(), "urgent");
    }

    proptest! {
        #[test]
        fn notifications_stay_within_the_bounds_and_nothing_else_is_lost(
            pushes in proptest::collection::vec((0..3_u8, 0..60_usize), 0..200),
        ) {
            let mut messages = Messages::default();
            let (mut kept, mut notifications) = (0, 0);
            for (class, size) in pushes {
                let class = [Class::Notification, Class::Required, Class::Answer][usize::from(class)];
                let before = messages.is_empty();
                messages.push(class, vec![b'x'; size], BOUNDS);
                if class == Class::Notification {
                    notifications += 1;
                    prop_assert!(before || messages.len() <= BOUNDS.messages.max(kept));
                } else {
                    kept += 1;
                }
                let bytes: usize = messages.iter().map(|entry| entry.message.len()).sum();
                prop_assert_eq!(messages.bytes(), bytes);
            }
            let left = messages.iter().filter(|entry| entry.class == Class::Notification).count();
            prop_assert_eq!(messages.len() - left, kept);
            prop_assert_eq!(left as u64 + messages.dropped(), notifications);
        }
    }
}
