//! Values that an operator rejects as a base.

use super::*;

/// Appends, but rejects bases that begin with a `b`.
#[derive(Debug)]
struct Fussy;

impl MergeOperator for Fussy {
    fn name(&self) -> &'static str {
        "fussy"
    }

    fn check(&self, operand: &[u8]) -> Result<(), BadOperand> {
        match operand.starts_with(b"b") {
            false => Ok(()),
            true => Err(BadOperand {
                operator: self.name().to_owned(),
                why: "it is bad".to_owned(),
            }),
        }
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        assert!(
            self.check(older).is_ok(),
            "nothing is folded into what is refused"
        );
        older.extend_from_slice(newer);
    }
}

/// What a reader reads: a value, or an error about a bad base.
fn read(
    history: &(Vec<Owned>, Vec<SequenceNumber>),
    at: SequenceNumber,
    now_ms: u64,
) -> Result<Option<Vec<u8>>, ()> {
    let (messages, deletes) = history;
    let (mut operands, mut base) = (Vec::new(), None);
    'messages: for Owned(sequence, kind, expires_ms, value) in
        messages.iter().filter(|message| message.0 <= at)
    {
        let is_deleted = deletes.iter().any(|delete| (*sequence + 1..=at).contains(delete));
        let is_expired = *expires_ms != 0 && *expires_ms <= now_ms;
        match kind {
            _ if is_deleted => break,
            MessageKind::TimedDelete => {
                for element in OperandChain::elements(value, *expires_ms).into_iter().rev() {
                    match element {
                        ChainElement::Operand(operand) => operands.push(operand.to_vec()),
                        ChainElement::DeletedAt(time_ms) if has_passed(time_ms, now_ms) => break 'messages,
                        ChainElement::DeletedAt(_) => {}
                    }
                }
            }
            _ if is_expired => break,
            MessageKind::Delete => break,
            MessageKind::Put => {
                base = Some(value.clone());
                break;
            }
            MessageKind::Merge => operands.push(value.clone()),
        }
    }
    if base.as_ref().is_some_and(|base| base.starts_with(b"b")) && !operands.is_empty() {
        return Err(());
    }
    let chain = base.into_iter().chain(operands.into_iter().rev());
    Ok(chain.reduce(|value, operand| [value, operand].concat()))
}

#[test]
fn a_value_that_is_refused_and_the_operands_upon_it_are_kept_as_they_are() {
    let (mut random, mut told) = (fastrand::Rng::with_seed(12), 0);
    for _ in 0..100_000 {
        let mut history = history(&mut random);
        for message in &mut history.0 {
            if message.1 == MessageKind::Put && random.bool() {
                message.3 = b"bad".to_vec();
            }
        }
        let taken = random.usize(..=history.0.len());
        let everything = taken == history.0.len() && random.bool();
        let horizon = random.u64(..22);
        let rule = FoldRule {
            horizon,
            readers: (horizon..22).filter(|_| random.u8(..4) == 0).collect(),
            older: [OlderData::Elsewhere, OlderData::None][usize::from(everything)],
            now_ms: NOW_MS,
        };
        let (messages, deletes) = &history;
        let counted = |sequence: &SequenceNumber| *sequence <= rule.horizon;
        let deleted = |at: SequenceNumber| deletes.iter().copied().filter(|&delete| delete <= at).max();
        let mut after: Vec<Owned> = Vec::new();
        let mut folder = MessageFolder::new(&rule, Some(&Fussy));
        folder.fold(messages[..taken].iter().map(Owned::message), deleted, |kept| {
            after.push(Owned(
                kept.sequence,
                kept.kind,
                kept.expires_ms,
                kept.operand.to_vec(),
            ));
        });
        let below = after.iter().filter(|message| message.0 <= rule.horizon).count();
        assert!(below <= 2, "one remains, or merges above a put (G3): {after:?}");
        after.extend_from_slice(&messages[taken..]);
        let mut remaining = deletes.clone();
        remaining.retain(|sequence| !everything || !counted(sequence));
        let folded = (after, remaining);
        let newest = rule.readers.last().copied().unwrap_or(horizon);
        let is_read = |at: &SequenceNumber| *at == horizon || *at > newest || rule.readers.contains(at);
        for at in (horizon..=21).filter(is_read) {
            for now_ms in (NOW_MS..NOW_MS + 12).step_by(3) {
                let (wanted, found) = (read(&history, at, now_ms), read(&folded, at, now_ms));
                assert_eq!(found, wanted, "at {at}: {history:?}, {taken} taken, {rule:?}");
                told += u32::from(wanted.is_err());
            }
        }
    }
    assert!(told > 10_000, "readers were told {told} times");
}
