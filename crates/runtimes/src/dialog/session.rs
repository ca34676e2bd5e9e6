//! The state of one dialog: open questions, throttled progress and the final message.

use super::pausable_deadline::PausableDeadline;
use super::throttle::ProgressThrottle;
use super::{MAX_MESSAGE, MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_OPEN_QUESTIONS};
use crate::dialog::Stop;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;
use toolyard_engine::Run;
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Caller, Error, ErrorKind, LogLevel, LogLine, RpcError};
use toolyard_sandbox::{ChildSession, KillReason};
use toolyard_wire::child_io::{self, Contract};
use toolyard_wire::dialog::{self, DialogLine, DialogRequest, Message, text_payload};

/// Lines that are not JSON are logged, up to this number and length.
const MAX_NON_JSON_LINES: usize = 100;
const MAX_NON_JSON_BYTES: usize = 1000;

/// An open question; completes with its key and the response line for the tool.
type PendingQuestion<'a> = Pin<Box<dyn Future<Output = (String, Bytes)> + Send + 'a>>;

pub struct DialogSession<'a> {
    caller: &'a dyn Caller,
    contract: Contract,
    pausable: PausableDeadline,
    throttle: ProgressThrottle,
    questions: FuturesUnordered<PendingQuestion<'a>>,
    keys: HashSet<String>,
    messages: usize,
    message_bytes: usize,
    non_json_lines: usize,
    /// Bytes of all lines that are not messages.
    output_bytes: usize,
    output_cap: usize,
    end: Option<FinalMessage>,
    /// The last line that was not JSON, reported if there is no response.
    last_non_json: Bytes,
}

/// The tool's final message.
pub enum FinalMessage {
    /// The response, as stdout without dialog.
    Answer(Bytes),
    Rpc(RpcError),
}

impl<'a> DialogSession<'a> {
    pub fn new(run: &Run<'a>, contract: Contract) -> DialogSession<'a> {
        DialogSession {
            caller: run.caller,
            contract,
            pausable: PausableDeadline::new(run.deadline, run.call.deadline, Run::MAX_WAIT_FOR_ANSWERS),
            throttle: ProgressThrottle::new(Instant::now()),
            questions: FuturesUnordered::new(),
            keys: HashSet::new(),
            messages: 0,
            message_bytes: 0,
            non_json_lines: 0,
            output_bytes: 0,
            output_cap: run.spec.limits.output,
            end: None,
            last_non_json: Bytes::new(),
        }
    }

    /// Handles one output line of the tool.
    pub fn handle_line(&mut self, line: Bytes, child: &mut ChildSession<'_>) -> Result<(), Stop> {
        let read = dialog::read(&line)?;
        if self.end.is_some() && read != DialogLine::Blank {
            return Err(self.trailing_output_error(&line).into());
        }
        match read {
            DialogLine::Blank => {}
            DialogLine::Noise => self.log_non_json(line)?,
            DialogLine::Answer => {
                self.count_output(line.len())?;
                self.finish(FinalMessage::Answer(line), child);
            }
            DialogLine::Message(message) => {
                self.count_message(line.len())?;
                self.message(message, child)?;
            }
        }
        Ok(())
    }

    pub fn has_open_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// The response line for the next answered question. Never completes if no question is open.
    pub async fn next_answer(&mut self) -> Bytes {
        let Some((key, line)) = self.questions.next().await else { return std::future::pending().await };
        self.keys.remove(&key);
        self.pausable.set_waiting(self.has_open_questions(), Instant::now());
        line
    }

    pub fn deadline(&self) -> Instant {
        self.pausable.deadline()
    }

    /// When throttled progress is due.
    pub fn next_wake(&self) -> Option<Instant> {
        self.throttle.next_wake()
    }

    pub fn flush_due(&mut self, now: Instant) {
        if let Some(progress) = self.throttle.due(now) {
            self.caller.progress(progress);
        }
    }

    pub fn flush_last(&mut self) {
        if let Some(progress) = self.throttle.take_pending() {
            self.caller.progress(progress);
        }
    }

    /// Without a response, the last line that was not JSON.
    pub fn into_final_message(self) -> FinalMessage {
        self.end.unwrap_or_else(|| FinalMessage::Answer(self.last_non_json))
    }

    fn message(&mut self, message: Message, child: &mut ChildSession<'_>) -> Result<(), Stop> {
        match message {
            Message::Progress(progress) => {
                if let Some(progress) = self.throttle.offer(progress, Instant::now()) {
                    self.caller.progress(progress);
                }
            }
            Message::Log(line) => self.caller.log(line),
            Message::CloseStream { retry_ms } => self.caller.close_stream(retry_ms),
            Message::Detach => self.caller.detach(),
            Message::RpcError(rpc) => self.finish(FinalMessage::Rpc(rpc), child),
            Message::InputRequest(request) => self.ask(request, child)?,
        }
        Ok(())
    }

    fn ask(
        &mut self,
        DialogRequest { id, question }: DialogRequest,
        child: &ChildSession<'_>,
    ) -> Result<(), Error> {
        let key = question.key.clone();
        if child.is_stdin_closed() {
            let message = format!("the tool asks '{}' but has closed its stdin", escape_control(&key));
            return Err(Error::new(ErrorKind::ToolFailed, message).hint("read the answers from stdin"));
        }
        if self.questions.len() >= MAX_OPEN_QUESTIONS {
            let message = format!("the tool has more than {MAX_OPEN_QUESTIONS} questions open at once");
            return Err(
                Error::new(ErrorKind::OutputTooLarge, message).hint("wait for answers before asking more")
            );
        }
        if !self.keys.insert(key.clone()) {
            let message =
                format!("the tool asks '{}' again while that question is open", escape_control(&key));
            return Err(Error::new(ErrorKind::InvalidOutput, message).hint("give each question a unique id"));
        }
        let request = self.caller.request_input(question);
        self.questions.push(Box::pin(async move {
            let answer = request.await;
            (key, dialog::answer(&id, answer.as_ref()))
        }));
        self.pausable.set_waiting(true, Instant::now());
        Ok(())
    }

    /// Cancels open questions and closes the tool's stdin.
    fn finish(&mut self, end: FinalMessage, child: &mut ChildSession<'_>) {
        self.flush_last();
        self.questions.clear();
        self.keys.clear();
        self.pausable.set_waiting(false, Instant::now());
        child.close_stdin();
        self.end = Some(end);
    }

    fn log_non_json(&mut self, line: Bytes) -> Result<(), Stop> {
        self.count_output(line.len())?;
        self.non_json_lines += 1;
        if self.non_json_lines <= MAX_NON_JSON_LINES {
            // Never a part of a line, because a partial secret could not be redacted.
            let text = match line.len() <= MAX_NON_JSON_BYTES {
                true => escape_control(&String::from_utf8_lossy(&line)),
                false => format!("a line of {} bytes that is not JSON", line.len()),
            };
            let logger = Some("stdout".to_owned());
            self.caller.log(LogLine { level: LogLevel::Debug, logger, data: text_payload(&text) });
        }
        self.last_non_json = line;
        Ok(())
    }

    fn count_output(&mut self, bytes: usize) -> Result<(), KillReason> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > self.output_cap { Err(KillReason::OverCap) } else { Ok(()) }
    }

    fn count_message(&mut self, bytes: usize) -> Result<(), Error> {
        self.messages += 1;
        self.message_bytes = self.message_bytes.saturating_add(bytes);
        let too_much = if bytes > MAX_MESSAGE {
            format!("a message of the tool has {bytes} bytes; the maximum is {MAX_MESSAGE}")
        } else if self.messages > MAX_MESSAGES {
            format!("the tool sent more than {MAX_MESSAGES} messages and was stopped")
        } else if self.message_bytes > MAX_MESSAGE_BYTES {
            format!("the tool sent more than {MAX_MESSAGE_BYTES} bytes of messages and was stopped")
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::OutputTooLarge, too_much).hint("send fewer or smaller messages"))
    }

    /// The contract's error for output after the response.
    fn trailing_output_error(&self, line: &[u8]) -> Error {
        let before = match &self.end {
            Some(FinalMessage::Answer(answer)) => answer,
            _ => &Bytes::from_static(b"null"),
        };
        let all = [before, line].join(&b'\n');
        let error = child_io::read(self.contract, all.into()).err();
        error
            .unwrap_or_else(|| Error::new(ErrorKind::InvalidOutput, "the tool printed more after its result"))
    }
}
