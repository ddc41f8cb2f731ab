//! The answers of one connection, in the order of its commands.
//!
//! ```text
//!  first                                     first + len
//!    │ done │ waiting │ done │ gather 3 of 5 │
//!    ▼ from the front, while done
//!  output
//! ```
//!
//! Command number `first + i` owns slot `i`. A reply finds its slot by this number, and only a done
//! slot at the front moves to the output. A slot has the protocol version of its command, because a
//! later HELLO may change the version before the command is answered.

use std::collections::VecDeque;

use crate::encode::{self, Protocol};
use crate::gather::{self, Gather};
use crate::message::Body;
use crate::shared::Shared;

/// The answer of a command, as far as it is known.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One partition was asked.
    Waiting,
    /// Several were asked.
    Gathering(Box<Gather>),
    /// The partition's answer, not yet written.
    Known(Body),
    /// The answer as bytes.
    Written(Vec<u8>),
}

#[derive(Debug)]
struct Slot {
    answer: Answer,
    /// Bytes of the command's arguments, until it is answered.
    cost: usize,
    protocol: Protocol,
}

/// What a reply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It waits for earlier ones.
    Later,
    /// It is at the front: `write_done` has something to write.
    First,
    /// The held replies are past their limit; it was dropped.
    TooMuch,
}

/// The slots of the commands under way.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    slots: VecDeque<Slot>,
    first: u64,
    under_way: usize,
    held: usize,
}

impl Ring {
    /// Whether every command is answered and written.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The commands that are not yet written.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of the first command that is not yet written.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next command.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Bytes of the arguments of commands that are not yet written.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Bytes of replies that wait here.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Bytes that the slots themselves occupy.
    pub(crate) fn occupied(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Opens the slot of the next command; returns its number.
    pub(crate) fn open(&mut self, answer: Answer, cost: usize, protocol: Protocol) -> u64 {
        let sequence = self.next();
        self.held += held(&answer);
        self.under_way += cost;
        self.slots.push_back(Slot {
            answer,
            cost,
            protocol,
        });
        sequence
    }

    /// Takes in a reply, unless what is held would pass `most` bytes then.
    pub(crate) fn take(
        &mut self,
        sequence: u64,
        body: Body,
        most: usize,
        shared: &Shared,
    ) -> Taken {
        let Some(slot) = usize::try_from(sequence.wrapping_sub(self.first))
            .ok()
            .and_then(|at| self.slots.get_mut(at))
        else {
            unreachable!(
                "reply {sequence} has no slot: the ring starts at {}",
                self.first
            );
        };
        let before = held(&slot.answer);
        match &mut slot.answer {
            answer @ Answer::Waiting => *answer = Answer::Known(body),
            Answer::Gathering(gather) => {
                let last = gather.take(body);
                // Checked before the values, which are shared so far, are copied.
                if self.held + gather.held() - before > most {
                    return Taken::TooMuch;
                }
                if last {
                    let mut bytes = Vec::new();
                    gather.write(shared, slot.protocol, &mut bytes);
                    slot.answer = Answer::Written(bytes);
                }
            }
            answer => unreachable!("reply {sequence} came twice: {answer:?} stands"),
        }
        self.held = self.held + held(&slot.answer) - before;
        if sequence == self.first {
            Taken::First
        } else {
            Taken::Later
        }
    }

    /// Moves done answers from the front to the output.
    pub(crate) fn write_done(&mut self, out: &mut Vec<u8>) {
        while let Some(slot) = self.slots.pop_front() {
            if matches!(slot.answer, Answer::Waiting | Answer::Gathering(_)) {
                self.slots.push_front(slot);
                return;
            }
            self.first += 1;
            self.under_way -= slot.cost;
            self.held -= held(&slot.answer);
            match slot.answer {
                Answer::Known(body) => write_body(&body, slot.protocol, out),
                Answer::Written(bytes) => out.extend_from_slice(&bytes),
                Answer::Waiting | Answer::Gathering(_) => {}
            }
        }
    }
}

/// Bytes that an answer keeps from the output.
fn held(answer: &Answer) -> usize {
    match answer {
        Answer::Waiting => 0,
        Answer::Gathering(gather) => gather.held(),
        Answer::Known(Body::Value(value)) => gather::bytes(value.as_ref()),
        Answer::Known(_) => 0,
        Answer::Written(bytes) => bytes.capacity(),
    }
}

fn write_body(body: &Body, protocol: Protocol, out: &mut Vec<u8>) {
    match body {
        Body::Status(text) => encode::simple(out, text),
        Body::Error(text) => encode::error(out, text),
        Body::Int(number) => encode::int(out, *number),
        Body::Value(value) => gather::write_value(value.as_ref(), protocol, out),
        Body::Values(_) | Body::Keys(_) | Body::Stats(_) => {
            unreachable!("{body:?} is a part and answers no command by itself")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Settings;

    #[test]
    fn each_answer_has_the_version_of_its_command() {
        let shared = Shared::new(Settings::default());
        let mut ring = Ring::default();
        let old = ring.open(Answer::Waiting, 7, Protocol::Two);
        let new = ring.open(Answer::Waiting, 5, Protocol::Three);
        assert_eq!((ring.len(), ring.under_way()), (2, 12));
        let mut out = Vec::new();
        assert_eq!(
            ring.take(new, Body::Value(None), 100, &shared),
            Taken::Later
        );
        ring.write_done(&mut out);
        assert_eq!(out, b"");
        assert_eq!(
            ring.take(old, Body::Value(None), 100, &shared),
            Taken::First
        );
        ring.write_done(&mut out);
        assert_eq!(out, b"$-1\r\n_\r\n");
        assert!(ring.is_empty());
        assert_eq!((ring.held(), ring.under_way()), (0, 0));
    }
}
