//! `toolyard job …`: lists, follows and cancels the jobs of a yard or of a running server.

use crate::output;
use crate::progress::Bar;
use crate::remote::Remote;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_engine::jobs::{Jobs, job_not_found};
use toolyard_engine::stores::JobFilter;
use toolyard_formats::{duration, json};
use toolyard_protocol::{Error, ErrorKind, Id, Identity, JobState};
use toolyard_wire::jobs::{self as wire, JobSummary};
use toolyard_wire::{outcome, render};

/// List, follow and cancel jobs
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List jobs, newest first
    List {
        /// Only jobs in this state: pending, running, input_required, complete, failed, cancelled, unknown
        #[arg(long, value_name = "STATE", value_parser = parse_state)]
        state: Vec<JobState>,
        /// Only jobs of this tool (canonical name)
        #[arg(long)]
        tool: Option<String>,
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// Only jobs older than this one
        #[arg(long, value_name = "ID", value_parser = parse_id)]
        before: Option<Id>,
    },
    /// Show a job and its result
    Show {
        #[arg(value_parser = parse_id)]
        id: Id,
    },
    /// Follow a job until it finishes, then show it
    Watch {
        #[arg(value_parser = parse_id)]
        id: Id,
    },
    /// Wait until a job finishes and print its result, with the exit code that 'call' would have
    Wait {
        #[arg(value_parser = parse_id)]
        id: Id,
        /// Give up after this time, such as 30s
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        timeout: Option<Duration>,
    },
    /// Cancel a job and kill its processes
    Cancel {
        #[arg(value_parser = parse_id)]
        id: Id,
    },
}

fn parse_state(text: &str) -> Result<JobState, String> {
    JobState::parse(text)
        .ok_or_else(|| format!("known states are {}", JobState::ALL.map(JobState::as_str).join(", ")))
}

fn parse_id(text: &str) -> Result<Id, String> {
    Id::parse(text).ok_or_else(|| "not a job id; 'toolyard job list' shows them".to_owned())
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let json = global.json;
    small_runtime()?.block_on(async {
        let client = JobClient::open(&global)?;
        match args.action {
            Action::List { state, tool, limit, before } => {
                let filter =
                    JobFilter { states: state, tool, before, limit: limit as usize, ..JobFilter::default() };
                print_list(&client.list(filter).await?, json)
            }
            Action::Show { id } => print_job(&client.job(id, Duration::ZERO).await?, json),
            Action::Watch { id } => print_job(&follow(&client, id, None).await?, json),
            Action::Wait { id, timeout } => print_result(&follow(&client, id, timeout).await?, json),
            Action::Cancel { id } => print_job(&client.cancel(id).await?, json),
        }
    })
}

/// Access to the jobs of a yard or of a server; both return the same JSON.
enum JobClient {
    /// The jobs of a yard; `None` while nothing is stored there, which looking must not change.
    Local(Option<Arc<Jobs>>),
    Remote(Remote),
}

impl JobClient {
    fn open(global: &GlobalOptions) -> Result<JobClient, Error> {
        match &global.url {
            Some(url) => Remote::new(url, global).map(JobClient::Remote),
            None => {
                let yard = Yard::look(global)?;
                let jobs = yard.state_dir.exists().then(|| yard.jobs()).transpose()?;
                Ok(JobClient::Local(jobs))
            }
        }
    }

    async fn list(&self, filter: JobFilter) -> Result<Bytes, Error> {
        match self {
            JobClient::Local(None) => Ok(wire::write_jobs(&[], None).into()),
            JobClient::Local(Some(jobs)) => {
                let limit = filter.limit;
                let found = jobs.list(JobFilter { is_summary: true, ..filter }).await?;
                let next = found.last().filter(|_| found.len() == limit).map(|job| job.id.to_string());
                Ok(wire::write_jobs(&found, next.as_deref()).into())
            }
            JobClient::Remote(remote) => {
                let states = filter.states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(",");
                let mut query = vec![("limit", filter.limit.to_string()), ("state", states)];
                query.extend(filter.tool.map(|tool| ("tool", tool)));
                query.extend(filter.before.map(|id| ("before", id.to_string())));
                remote.get(&["v1", "jobs"], &query).await
            }
        }
    }

    /// The job when it has finished, or its state after `wait`.
    async fn job(&self, id: Id, wait: Duration) -> Result<Bytes, Error> {
        match self {
            JobClient::Local(None) => Err(job_not_found(id)),
            JobClient::Local(Some(jobs)) => {
                Ok(wire::write_job(&jobs.wait(id, &Identity::local(), wait).await?).into())
            }
            JobClient::Remote(remote) => {
                let query = [("wait_ms", wait.as_millis().to_string())];
                remote.get(&["v1", "jobs", &id.to_string()], &query).await
            }
        }
    }

    async fn cancel(&self, id: Id) -> Result<Bytes, Error> {
        match self {
            JobClient::Local(None) => Err(job_not_found(id)),
            JobClient::Local(Some(jobs)) => {
                jobs.cancel(id, &Identity::local()).await?;
                // A job of another process is stopped by that process, within about a second.
                self.job(id, Duration::from_secs(10)).await
            }
            JobClient::Remote(remote) => {
                remote.post(&["v1", "jobs", &id.to_string(), "cancel"], Bytes::new()).await
            }
        }
    }
}

/// Shows the progress on a terminal until the job finishes or the timeout expires.
async fn follow(client: &JobClient, id: Id, timeout: Option<Duration>) -> Result<Bytes, Error> {
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let bar = Bar::start();
    loop {
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let job = client.job(id, left.min(Duration::from_millis(500))).await?;
        let shown = read(&job)?;
        if JobState::parse(&shown.state).is_none_or(JobState::is_finished) {
            return Ok(job);
        }
        if left.is_zero() {
            let waited = duration::format(timeout.unwrap_or_default());
            let message = format!("the job is still {} after {waited}", shown.state);
            return Err(Error::new(ErrorKind::Timeout, message).hint("wait again, or cancel the job"));
        }
        let progress = shown.progress.as_ref();
        let message = progress.and_then(|progress| progress.message.as_deref()).unwrap_or(&shown.state);
        bar.show(progress.map(|progress| progress.percent), &format!("{}: {message}", shown.tool));
    }
}

fn read(job: &[u8]) -> Result<JobSummary, Error> {
    wire::read_job(job).map_err(|what| Error::new(ErrorKind::InvalidOutput, format!("invalid job: {what}")))
}

fn print_list(list: &[u8], as_json: bool) -> Result<u8, Error> {
    if as_json {
        output::data(list);
        return Ok(0);
    }
    let (jobs, next) = wire::read_jobs(list)
        .map_err(|what| Error::new(ErrorKind::InvalidOutput, format!("invalid list of jobs: {what}")))?;
    let mut rows = vec![["ID", "STATE", "PROGRESS", "CREATED", "TOOL"].map(str::to_owned).to_vec()];
    for job in &jobs {
        let progress =
            job.progress.as_ref().map_or("-".to_owned(), |progress| format!("{:.0} %", progress.percent));
        let row = [&job.job_id, &job.state, &progress, &job.created_at, &job.tool];
        rows.push(row.map(String::clone).to_vec());
    }
    match jobs.len() {
        0 => output::note("no jobs"),
        _ => output::table(&rows),
    }
    if let Some(next) = next {
        output::note(format!("more: toolyard job list --before {next}"));
    }
    Ok(0)
}

fn print_job(job: &Bytes, as_json: bool) -> Result<u8, Error> {
    if as_json {
        output::data(job);
        return Ok(0);
    }
    let shown = read(job)?;
    let mut rows =
        vec![("job", shown.job_id), ("tool", shown.tool), ("state", shown.state), ("timing", shown.timing)];
    if let Some(progress) = shown.progress {
        let message = progress.message.unwrap_or_default();
        rows.push(("progress", format!("{:.0} % {message}", progress.percent).trim_end().to_owned()));
    }
    rows.push(("created", shown.created_at));
    let times =
        [("started", shown.started_at), ("finished", shown.finished_at), ("expires", shown.expires_at)];
    rows.extend(times.into_iter().filter_map(|(name, time)| Some((name, time?))));
    if shown.attempt > 1 {
        rows.push(("attempt", shown.attempt.to_string()));
    }
    output::table(&rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect::<Vec<_>>());
    if let Some(ended) = ended(job)? {
        match ended.error() {
            Some(error) => output::show_error(error),
            None => output::data(render::result(&ended)),
        }
    }
    Ok(0)
}

/// Prints the result as `call` does.
fn print_result(job: &Bytes, as_json: bool) -> Result<u8, Error> {
    let shown = read(job)?;
    let ended = match ended(job)? {
        Some(ended) => ended,
        None => {
            let message = format!("the job is {}", shown.state);
            let kind = if shown.state == "cancelled" { ErrorKind::Cancelled } else { ErrorKind::Unavailable };
            return Err(Error::new(kind, message).hint("'toolyard job show' shows its details"));
        }
    };
    super::call::print(&ended, as_json);
    Ok(ended.error().map_or(0, |error| error.kind.row().exit))
}

fn ended(job: &Bytes) -> Result<Option<toolyard_protocol::Outcome>, Error> {
    let found = json::pointer(job, "/outcome")
        .map_err(|defect| Error::new(ErrorKind::InvalidOutput, format!("invalid job: {defect}")))?;
    let raw_outcome = found.map(|range| job.slice(range)).filter(|raw| raw.as_ref() != b"null");
    raw_outcome.map(|raw| outcome::read(&raw)).transpose()
}
