package broker

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/reader"
)

// reads answers ReaderApi from this broker's own image: the one that it has acted on, and at its start
// the one that it has followed so far.
type reads struct {
	b *Broker
}

// Read gives the image at once, or when it has the offset asked for. A broker cannot tell whether its image is the
// newest: whoever needs that asks the active controller.
func (rs reads) Read(ctx context.Context, o *controllerpb.ReadOptions) (*image.Image, error) {
	if o == nil || o.MinOffset == nil {
		return rs.b.present(), nil
	}
	return rs.b.applied.waitOffset(ctx, image.MetadataOffset(o.GetMinOffset()))
}

// ReadAt gives the image if it is at exactly the offset, or gets there soon: a broker keeps no older one.
func (rs reads) ReadAt(ctx context.Context, offset image.MetadataOffset) (*image.Image, error) {
	bounded, cancel := context.WithTimeout(ctx, reader.AtWaitMax)
	defer cancel()
	im, err := rs.b.applied.waitOffset(bounded, offset)
	if err != nil && (bounded.Err() == nil || ctx.Err() != nil) {
		return nil, err
	}
	if err != nil {
		im = rs.b.present()
	}
	if im.Offset() != offset {
		return nil, client.RefusalStatus(codes.OutOfRange, &controllerpb.RefusalDetail{Error: &controllerpb.Error{
			Code: controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE,
			Message: fmt.Sprintf("broker %v has metadata offset %d and keeps no older image; asked for %d; ask without an offset, or a controller",
				rs.b.cfg.ID, im.Offset(), offset),
		}}).Err()
	}
	return im, nil
}

// Heard is nothing: brokers do not hear each other's heartbeats.
func (rs reads) Heard(image.BrokerID) reader.Heard { return reader.Nothing }

// Status is what the broker knows of itself, at once.
func (rs reads) Status() *controllerpb.NodeStatusResponse {
	b := rs.b
	im := b.present()
	return &controllerpb.NodeStatusResponse{
		ClusterId: b.cfg.ClusterID, NodeId: int32(b.cfg.ID), DirectoryId: b.cfg.DirectoryID.Bytes(),
		Roles: []string{"broker"}, State: b.lifecycle.current().state.String(),
		ActiveController: b.follower.heard.activeController(),
		MetadataOffset:   int64(im.Offset()), Chain: uint64(im.Chain()), LastContactMs: -1,
		Lineage: int32(im.Lineage().Number), LineageUnconfirmed: im.Lineage().IsUnconfirmed(),
	}
}

// Settings are the broker's own configuration.
func (rs reads) Settings() reader.Settings { return brokerSettings{settingsOf(rs.b.cfg.Settings)} }

// brokerSettings adds the keys that clients can ask for.
type brokerSettings struct{ kafka.Configs }

// Keys lists the keys of topics or of brokers.
func (brokerSettings) Keys(t metadatapb.ResourceType) []string { return kafka.ConfigKeys(t) }

// Wait returns when the broker has acted on the offset and holds nothing more of the topics.
func (rs reads) Wait(ctx context.Context, r *controllerpb.WaitMetadataRequest) (image.MetadataOffset, error) {
	topics := make([]image.TopicID, len(r.DeletedTopics))
	for i, t := range r.DeletedTopics {
		id, err := image.UUIDFrom(t)
		if err != nil {
			return image.NoOffset, client.RefusalStatus(codes.InvalidArgument, &controllerpb.RefusalDetail{Error: &controllerpb.Error{
				Code: controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, Message: "deleted_topics: " + err.Error(),
			}}).Err()
		}
		topics[i] = id
	}
	for {
		im, changed := rs.b.applied.watch()
		if im.Offset() >= image.MetadataOffset(r.MetadataOffset) && !rs.b.replicas.holdsAny(topics, changed) {
			return im.Offset(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return im.Offset(), ctx.Err()
		}
	}
}
