package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ConfirmLineage notes that an operator has looked at what an offline recovery brought back. From here on brokers delete
// again: what the metadata does not know, and what it says is deleted.
//
//	INVALID_REQUEST  no recovery began the present lineage, or the request names another one
//
// A lineage that is confirmed already is confirmed again without a record.
func ConfirmLineage(v View, req *controllerpb.ConfirmLineageRequest) (Decision[*controllerpb.ConfirmLineageResponse], error) {
	var d Decision[*controllerpb.ConfirmLineageResponse]
	l := v.Image.Lineage()
	switch {
	case l.Number == 0:
		return d, controllerpb.Refuse(codeInvalidRequest, "this log is of lineage 0: it was never recovered, and nothing waits for a confirmation")
	case req.Number != nil && image.LineageNumber(req.GetNumber()) != l.Number:
		return d, controllerpb.Refuse(codeInvalidRequest,
			"the log is of lineage %d, the request confirms lineage %d: look at what the newest recovery brought back, and confirm that one", l.Number, req.GetNumber())
	}
	d.Response = &controllerpb.ConfirmLineageResponse{Number: int32(l.Number)}
	if !l.IsUnconfirmed() {
		return d, nil
	}
	records := []*metadatapb.Record{{Kind: &metadatapb.Record_LineageConfirmed{LineageConfirmed: &metadatapb.LineageConfirmed{
		Number: int32(l.Number), TimeMs: v.nowMs(),
	}}}}
	if req.GetValidateOnly() {
		d.Response.Records = records
		return d, nil
	}
	d.Records = records
	d.because("cluster", "lineage %d is confirmed: brokers delete again", l.Number)
	return d, nil
}

// checkLineage refuses a broker that has followed a newer lineage: this log is from before an offline recovery.
func checkLineage(im *image.Image, broker image.BrokerID, lineage int32) error {
	if own := im.Lineage().Number; image.LineageNumber(lineage) > own {
		return controllerpb.Refuse(codeNotController,
			"broker %v has followed lineage %d, this controller is of lineage %d: it is left from before an offline recovery; stop it, format it anew and add it with quorate quorum add",
			broker, lineage, own)
	}
	return nil
}

// offsetOf is a broker's offset if it is one of the present lineage. One of an older lineage says nothing.
func offsetOf(im *image.Image, lineage int32, offset int64) image.MetadataOffset {
	if image.LineageNumber(lineage) < im.Lineage().Number {
		return image.NoOffset
	}
	return image.MetadataOffset(offset)
}
