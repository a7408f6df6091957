//! Lists that grow in pieces: nothing is copied when they grow, and no memory is reserved for twice
//! as many.

/// Values in a piece.
const PIECE: usize = 16;

/// A list that only grows.
#[derive(Clone, Debug)]
pub(super) struct Pieces<T> {
    /// All with [`PIECE`] values.
    full: Vec<Vec<T>>,
    last: Vec<T>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces { full: Vec::new(), last: Vec::new() }
    }
}

impl<T: Clone> Pieces<T> {
    pub(super) fn push(&mut self, value: T) {
        if self.last.len() == PIECE {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(PIECE)));
        }
        self.last.push(value);
    }

    pub(super) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    /// The value that was added last.
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.last.last_mut()
    }

    /// All values, in one piece.
    pub(super) fn into_vec(self) -> Vec<T> {
        if self.full.is_empty() {
            return self.last;
        }
        let mut all = Vec::with_capacity(self.len());
        self.full.iter().for_each(|piece| all.extend_from_slice(piece));
        all.extend_from_slice(&self.last);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order() {
        let mut pieces = Pieces::default();
        for count in 0..5 * PIECE {
            assert_eq!(pieces.len(), count);
            assert_eq!(pieces.clone().into_vec(), (0..count).collect::<Vec<_>>());
            pieces.push(usize::MAX);
            if let Some(last) = pieces.last_mut() {
                *last = count;
            }
        }
    }
}
