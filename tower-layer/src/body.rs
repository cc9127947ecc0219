//! The body of an answer: the service's, or a refusal.

use crate::agent::Slot;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The body of an answer, which holds the request's slots until it has been sent.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        body: Either<B, Full<Bytes>>,
        slot: Option<Slot>,
    }
}

impl<B> LimitedBody<B> {
    pub(crate) fn of_service(body: B, slot: Option<Slot>) -> Self {
        Self { body: Either::Left(body), slot }
    }

    pub(crate) fn of_refusal(body: Bytes) -> Self {
        Self { body: Either::Right(Full::new(body)), slot: None }
    }
}

impl<B: Body<Data = Bytes>> Body for LimitedBody<B>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            *this.slot = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
