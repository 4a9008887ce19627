package main

import "testing"

func TestBrokerList(t *testing.T) {
	w := newWorld(t)
	w.fenced[3] = true
	w.golden(t, "broker_list.txt", nil)
}
