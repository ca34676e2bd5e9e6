//! The state of one conversation: what was asked, what is held back, how it is to end.

use super::clock::Clock;
use super::pace::Pace;
use super::{MAX_MESSAGE, MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_OPEN};
use crate::child::{Cut, Live};
use crate::dialog::Stop;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;
use toolyard_engine::Run;
use toolyard_protocol::text::visible;
use toolyard_protocol::{Caller, Error, ErrorKind, LogLevel, LogLine, RpcError};
use toolyard_wire::answer::{self, Contract};
use toolyard_wire::dialog::{self, Asked, Line, Message, text_payload};

/// Lines that are no JSON: so many are passed on as log, none longer than this.
const NOISE_LINES: usize = 100;
const NOISE_BYTES: usize = 1000;

/// A question under way: its key and, in the end, the line for the tool.
type Open<'a> = Pin<Box<dyn Future<Output = (String, Bytes)> + Send + 'a>>;

pub struct Talk<'a> {
    caller: &'a dyn Caller,
    contract: Contract,
    clock: Clock,
    pace: Pace,
    open: FuturesUnordered<Open<'a>>,
    keys: HashSet<String>,
    messages: usize,
    message_bytes: usize,
    noise_lines: usize,
    /// Of everything that is no message.
    output_bytes: usize,
    output_cap: usize,
    end: Option<End>,
    /// The last line that was no JSON, to show when no answer comes.
    last_noise: Bytes,
}

/// How the tool wants the call to end.
pub enum End {
    /// What stdout would hold if it had only answered.
    Answer(Vec<u8>),
    Rpc(RpcError),
}

impl<'a> Talk<'a> {
    pub fn new(run: &Run<'a>, contract: Contract) -> Talk<'a> {
        Talk {
            caller: run.caller,
            contract,
            clock: Clock::new(run.deadline, run.call.deadline, Run::MAX_WAIT_FOR_ANSWERS),
            pace: Pace::new(Instant::now()),
            open: FuturesUnordered::new(),
            keys: HashSet::new(),
            messages: 0,
            message_bytes: 0,
            noise_lines: 0,
            output_bytes: 0,
            output_cap: run.spec.limits.output,
            end: None,
            last_noise: Bytes::new(),
        }
    }

    /// Takes one line of the tool.
    pub fn hear(&mut self, line: Bytes, live: &mut Live<'_>) -> Result<(), Stop> {
        let read = dialog::read(&line)?;
        if self.end.is_some() && read != Line::Blank {
            return Err(self.more(&line).into());
        }
        match read {
            Line::Blank => {}
            Line::Noise => self.noise(line)?,
            Line::Answer => {
                self.count_output(line.len())?;
                self.end(End::Answer(line.into()), live);
            }
            Line::Message(message) => {
                self.count_message(line.len())?;
                self.message(message, live)?;
            }
        }
        Ok(())
    }

    pub fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next line with an answer, whichever question it is for. Not to be called when nothing was asked.
    pub async fn next_answer(&mut self) -> Bytes {
        let Some((key, line)) = self.open.next().await else { return std::future::pending().await };
        self.keys.remove(&key);
        self.clock.set_waiting(self.is_asking(), Instant::now());
        line
    }

    pub fn time_is_up_at(&self) -> Instant {
        self.clock.end()
    }

    /// When held progress is due.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.pace.wakes_at()
    }

    pub fn deliver_due(&mut self, now: Instant) {
        if let Some(progress) = self.pace.due(now) {
            self.caller.progress(progress);
        }
    }

    pub fn deliver_last(&mut self) {
        if let Some(progress) = self.pace.last() {
            self.caller.progress(progress);
        }
    }

    /// Without an answer, what was there instead.
    pub fn into_end(self) -> End {
        self.end.unwrap_or_else(|| End::Answer(self.last_noise.into()))
    }

    fn message(&mut self, message: Message, live: &mut Live<'_>) -> Result<(), Stop> {
        match message {
            Message::Progress(progress) => {
                if let Some(progress) = self.pace.offer(progress, Instant::now()) {
                    self.caller.progress(progress);
                }
            }
            Message::Log(line) => self.caller.log(line),
            Message::CloseStream { retry_ms } => self.caller.close_stream(retry_ms),
            Message::Detach => self.caller.detach(),
            Message::RpcError(rpc) => self.end(End::Rpc(rpc), live),
            Message::Ask(asked) => self.ask(asked, live)?,
        }
        Ok(())
    }

    fn ask(&mut self, Asked { id, question }: Asked, live: &Live<'_>) -> Result<(), Error> {
        let key = question.key.clone();
        if live.is_deaf() {
            let message = format!("the tool asks '{}' but has closed its stdin", visible(&key));
            return Err(Error::new(ErrorKind::ToolFailed, message).hint("read the answers from stdin"));
        }
        if self.open.len() >= MAX_OPEN {
            let message = format!("the tool has more than {MAX_OPEN} questions open at once");
            return Err(
                Error::new(ErrorKind::OutputTooLarge, message).hint("wait for answers before asking more")
            );
        }
        if !self.keys.insert(key.clone()) {
            let message = format!("the tool asks '{}' again while that question is open", visible(&key));
            return Err(
                Error::new(ErrorKind::InvalidOutput, message).hint("give each question an id of its own")
            );
        }
        let asking = self.caller.ask(question);
        self.open.push(Box::pin(async move {
            let answer = asking.await;
            (key, dialog::answer(&id, answer.as_ref()))
        }));
        self.clock.set_waiting(true, Instant::now());
        Ok(())
    }

    /// Nothing that was asked matters any more, and nothing more will be said.
    fn end(&mut self, end: End, live: &mut Live<'_>) {
        self.deliver_last();
        self.open.clear();
        self.keys.clear();
        self.clock.set_waiting(false, Instant::now());
        live.close_stdin();
        self.end = Some(end);
    }

    fn noise(&mut self, line: Bytes) -> Result<(), Stop> {
        self.count_output(line.len())?;
        self.noise_lines += 1;
        if self.noise_lines <= NOISE_LINES {
            // Never a part of a line: half a secret could not be recognised.
            let text = match line.len() <= NOISE_BYTES {
                true => visible(&String::from_utf8_lossy(&line)),
                false => format!("a line of {} bytes that is not JSON", line.len()),
            };
            let logger = Some("stdout".to_owned());
            self.caller.log(LogLine { level: LogLevel::Debug, logger, data: text_payload(&text) });
        }
        self.last_noise = line;
        Ok(())
    }

    fn count_output(&mut self, bytes: usize) -> Result<(), Cut> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > self.output_cap { Err(Cut::OverCap) } else { Ok(()) }
    }

    fn count_message(&mut self, bytes: usize) -> Result<(), Error> {
        self.messages += 1;
        self.message_bytes = self.message_bytes.saturating_add(bytes);
        let too_much = if bytes > MAX_MESSAGE {
            format!("a message of the tool has {bytes} bytes; at most {MAX_MESSAGE} are taken")
        } else if self.messages > MAX_MESSAGES {
            format!("the tool sent more than {MAX_MESSAGES} messages and was stopped")
        } else if self.message_bytes > MAX_MESSAGE_BYTES {
            format!("the tool sent more than {MAX_MESSAGE_BYTES} bytes of messages and was stopped")
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::OutputTooLarge, too_much).hint("say less while the tool runs"))
    }

    /// The contract's own words for output after the answer.
    fn more(&self, line: &[u8]) -> Error {
        let before = match &self.end {
            Some(End::Answer(answer)) => answer,
            _ => &Vec::from(*b"null"),
        };
        let all = [before, line].join(&b'\n');
        let refused = answer::read(self.contract, all.into()).err();
        refused
            .unwrap_or_else(|| Error::new(ErrorKind::InvalidOutput, "the tool printed more after its answer"))
    }
}
