//! The children, as the parent holds them: started, sent orders, listened to, killed, paused and started again.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Role;
use super::pace::now;
use super::place::Place;
use super::tally::Tally;
use super::wire::{Order, Stop, Word};

/// One producer and two workers.
pub(crate) const PRODUCER: usize = 0;
pub(crate) const WORKERS: [usize; 2] = [1, 2];
/// Those who reach a server through the proxy.
const PROXIED: [usize; 2] = [PRODUCER, WORKERS[0]];
const ROLES: [Role; 3] = [Role::Producer, Role::Worker, Role::Worker];
/// With a wire between them.
const ROLES_OF_SERVICES: [Role; 3] = [Role::Producer, Role::Sender, Role::Receiver];

/// How long a child may take to start, and to end when it is asked to.
const START_MAX: Duration = Duration::from_secs(20);
const END_MAX: Duration = Duration::from_secs(5);

/// Something a child said.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) who: usize,
    pub(crate) life: u32,
    pub(crate) at: Instant,
    pub(crate) word: Word,
}

impl Event {
    pub(crate) fn is_at(&self, who: usize, stop: Stop) -> bool {
        self.who == who && matches!(&self.word, Word::At(at, _) if *at == stop)
    }

    pub(crate) fn is_refusal_of(&self, who: usize) -> bool {
        self.who == who && self.word == Word::Refused
    }
}

struct Member {
    child: Child,
    /// Gone when it was asked to end.
    orders: Option<ChildStdin>,
    life: u32,
}

/// The children.
pub(crate) struct Crew {
    executable: PathBuf,
    place: Place,
    /// Another way to the server, for some of them.
    proxied: Option<String>,
    members: Vec<Member>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    readers: Vec<JoinHandle<()>>,
    granted: u64,
    pub(crate) tally: Tally,
}

impl Crew {
    pub(crate) fn start(executable: PathBuf, place: Place, proxied: Option<String>) -> Result<Self> {
        let (sender, events) = channel();
        let (members, readers, tally) = (Vec::new(), Vec::new(), Tally::default());
        let mut crew = Self { executable, place, proxied, members, events, sender, readers, granted: 0, tally };
        for who in 0..ROLES.len() {
            let member = crew.spawn(who, 0)?;
            crew.members.push(member);
        }
        let mut absent = ROLES.len();
        let are_ready = crew.wait_for(START_MAX, |event| {
            absent -= usize::from(event.word == Word::Ready);
            absent == 0
        });
        are_ready.context("the children did not start")?;
        Ok(crew)
    }

    fn spawn(&mut self, who: usize, life: u32) -> Result<Member> {
        let mut command = Command::new(&self.executable);
        command.args(["--role", self.role(who).name(), "--seed", &self.place.seed.to_string()]);
        command.args(["--messages", &self.place.messages.to_string()]).arg("--dir").arg(&self.place.dir);
        command.args(["--lanes", &self.place.lanes.to_string()]);
        command.args(["--backend", self.place.database.name()]);
        let server = if PROXIED.contains(&who) { &self.proxied } else { &self.place.server };
        if let Some(server) = server {
            command.args(["--server", server]);
        }
        if let Some(peer) = &self.place.peer {
            command.args(["--peer", peer]);
        }
        if let Some(sabotage) = self.place.sabotage {
            command.args(["--sabotage", super::sabotage_name(sabotage)]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.executable.display()))?;
        let orders = child.stdin.take();
        let words = child.stdout.take().context("a child has no stdout")?;
        let sender = self.sender.clone();
        self.readers.push(std::thread::spawn(move || listen(words, who, life, &sender)));
        Ok(Member { child, orders, life })
    }

    fn role(&self, who: usize) -> Role {
        if self.place.peer.is_some() { ROLES_OF_SERVICES[who] } else { ROLES[who] }
    }

    /// The other service.
    pub(crate) fn other(&self, who: usize) -> usize {
        let [sender, receiver] = WORKERS;
        if who == receiver { sender } else { receiver }
    }

    /// Who can be stopped at this place; none when several can.
    pub(crate) fn only_at(&self, stop: Stop) -> Option<usize> {
        let [sender, receiver] = WORKERS;
        match stop {
            Stop::Placing | Stop::Enqueued => Some(PRODUCER),
            _ if self.place.peer.is_none() => None,
            Stop::Called | Stop::Handling | Stop::Visible => Some(receiver),
            _ => Some(sender),
        }
    }

    /// Tells a child. One that just died does not hear it.
    pub(crate) fn tell(&mut self, who: usize, order: &Order) {
        if let Some(orders) = &mut self.members[who].orders {
            let _ = orders.write_all(order.line().as_bytes());
        }
    }

    /// Lets the producer place orders below this number.
    pub(crate) fn grant(&mut self, below: u64) {
        self.granted = self.granted.max(below);
        self.tell(PRODUCER, &Order::Grant(self.granted));
    }

    /// Kills a child and starts another in its place.
    pub(crate) fn kill(&mut self, who: usize) -> Result<()> {
        let role = self.role(who).name();
        let member = &mut self.members[who];
        if let Some(status) = member.child.try_wait()? {
            self.tally.deaths.push(format!("{role} {who} died on its own: {status}"));
        }
        member.child.kill()?;
        member.child.wait()?;
        let life = member.life + 1;
        self.tally.hit(now());
        self.members[who] = self.spawn(who, life)?;
        let ready = self.wait_for(START_MAX, |event| event.who == who && event.word == Word::Ready);
        ready.with_context(|| format!("{role} {who} did not start again"))?;
        self.grant(0);
        Ok(())
    }

    /// Pauses a child; returns when all its threads stand still.
    pub(crate) fn pause(&self, who: usize) -> Result<()> {
        let pid = Pid::from_child(&self.members[who].child);
        kill_process(pid, Signal::STOP)?;
        match waitpid(Some(pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(()),
            other => Err(anyhow!("{} {who} did not stop: {other:?}", self.role(who).name())),
        }
    }

    /// Lets a paused child go on, wherever it stands.
    pub(crate) fn resume(&mut self, who: usize) -> Result<()> {
        kill_process(Pid::from_child(&self.members[who].child), Signal::CONT)?;
        self.tally.hit(now());
        Ok(())
    }

    /// Listens until an event is the one, or the time is over. A child that stops where nobody waits for it is let go.
    pub(crate) fn wait_for(&mut self, limit: Duration, mut is_it: impl FnMut(&Event) -> bool) -> Option<Event> {
        let until = now() + limit;
        loop {
            let event = self.events.recv_timeout(until.saturating_duration_since(now())).ok()?;
            let is_current = self.members.get(event.who).is_none_or(|member| member.life == event.life);
            self.tally.count(&event, is_current);
            if !is_current {
                continue;
            }
            if is_it(&event) {
                return Some(event);
            }
            if matches!(event.word, Word::At(..)) {
                self.tell(event.who, &Order::Go);
            }
        }
    }

    /// Lets time pass, listening.
    pub(crate) fn linger(&mut self, span: Duration) {
        self.wait_for(span, |_| false);
    }

    /// Ends the children by ending their orders, and hears what they still have to say.
    pub(crate) fn dismiss(&mut self) -> Result<()> {
        self.members.iter_mut().for_each(|member| drop(member.orders.take()));
        let until = now() + END_MAX;
        for who in 0..ROLES.len() {
            let status = loop {
                match self.members[who].child.try_wait()? {
                    Some(status) => break status,
                    None if now() > until => self.members[who].child.kill()?,
                    None => self.linger(Duration::from_millis(10)),
                }
            };
            if !status.success() {
                self.tally.deaths.push(format!("{} {who} did not end in peace: {status}", self.role(who).name()));
            }
        }
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
        self.linger(Duration::ZERO);
        Ok(())
    }
}

/// Nothing outlives a run that ended early.
impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn listen(words: ChildStdout, who: usize, life: u32, sender: &Sender<Event>) {
    for line in BufReader::new(words).lines().map_while(Result::ok) {
        let word = Word::parse(&line).unwrap_or_else(|error| Word::Trouble(error.to_string()));
        let _ = sender.send(Event { who, life, at: now(), word });
    }
}
