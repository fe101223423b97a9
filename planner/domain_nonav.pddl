; The same benchmark for an agent without a Navigate skill (TP-SRL(NoNav) in the VER paper, section 5.2): the other skills
; drive themselves to where they work, so where the robot stands bears on nothing. domain.pddl without `nav`,
; `nav_to_receptacle` and `robot_at`.
(define (domain home_rearrangement)
  (:requirements :strips :typing :negative-preconditions :disjunctive-preconditions
                 :universal-preconditions :conditional-effects)

  (:types
    static_obj robot - object
    art_receptacle obj - static_obj
    cab fridge - art_receptacle
    movable goal - obj)

  (:predicates
    (holding ?o - movable ?r - robot)
    (not_holding ?r - robot)
    (in ?o - obj ?c - art_receptacle)
    (opened_cab ?c - cab)
    (closed_cab ?c - cab)
    (opened_fridge ?c - fridge)
    (closed_fridge ?c - fridge)
    (object_at ?o - movable ?g - goal))

  (:action pick
    :parameters (?o - movable ?r - robot)
    :precondition (and
      (not_holding ?r)
      (forall (?c - cab) (or (not (in ?o ?c)) (not (closed_cab ?c))))
      (forall (?f - fridge) (or (not (in ?o ?f)) (not (closed_fridge ?f)))))
    :effect (and
      (holding ?o ?r)
      (not (not_holding ?r))
      (forall (?c - art_receptacle) (not (in ?o ?c)))
      (forall (?g - goal) (not (object_at ?o ?g)))))

  (:action place
    :parameters (?o - movable ?g - goal ?r - robot)
    :precondition (and
      (holding ?o ?r)
      (forall (?c - cab) (or (not (in ?g ?c)) (not (closed_cab ?c))))
      (forall (?f - fridge) (or (not (in ?g ?f)) (not (closed_fridge ?f)))))
    :effect (and
      (object_at ?o ?g)
      (not_holding ?r)
      (not (holding ?o ?r))))

  (:action open_cab
    :parameters (?c - cab ?o - obj ?r - robot)
    :precondition (and (closed_cab ?c) (in ?o ?c) (not_holding ?r))
    :effect (and (opened_cab ?c) (not (closed_cab ?c))))

  (:action close_cab
    :parameters (?c - cab ?o - obj ?r - robot)
    :precondition (and (opened_cab ?c) (in ?o ?c) (not_holding ?r))
    :effect (and (closed_cab ?c) (not (opened_cab ?c))))

  (:action open_fridge
    :parameters (?f - fridge ?o - obj ?r - robot)
    :precondition (and (closed_fridge ?f) (in ?o ?f) (not_holding ?r))
    :effect (and (opened_fridge ?f) (not (closed_fridge ?f))))

  (:action close_fridge
    :parameters (?f - fridge ?o - obj ?r - robot)
    :precondition (and (opened_fridge ?f) (in ?o ?f) (not_holding ?r))
    :effect (and (closed_fridge ?f) (not (opened_fridge ?f)))))
